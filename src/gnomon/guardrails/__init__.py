"""Guardrails: checks on what goes in and what comes out, without a model and without the network."""
