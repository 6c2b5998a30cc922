"""What agents remember of a person or a session, on any store."""

from gnomon.memory.memory import Memory, UserOf

__all__ = ["Memory", "UserOf"]
