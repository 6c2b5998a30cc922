"""Hooks: what stands beside the steps of a turn, or around them."""
