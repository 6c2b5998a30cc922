"""Stores: memory, SQLite, PostgreSQL, Redis, MongoDB and DynamoDB, each one file over shared pieces."""
