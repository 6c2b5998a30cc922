"""How the demo model chooses what to call and what to say."""
