"""Gnomon: a durable agent runtime. Each public name is loaded when first touched."""
