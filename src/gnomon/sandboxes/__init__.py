"""Sandboxes: places for commands that are not trusted. What each holds is in docs/security.md."""
