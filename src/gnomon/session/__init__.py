"""Sessions: the boundary between whoever shows a conversation and the engine that has it."""
