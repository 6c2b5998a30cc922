"""Who wakes a session."""
