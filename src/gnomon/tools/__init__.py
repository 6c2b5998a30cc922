"""Tools: how a function becomes one, and the small ones that come built in."""
