"""Compactors: a shorter view of a conversation that has grown too long."""
