"""Hooks: what stands beside each step, or around it."""
