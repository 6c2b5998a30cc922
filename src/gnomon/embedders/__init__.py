"""Texts into vectors: one file a back end, loaded by the registry."""
