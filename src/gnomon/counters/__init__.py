"""Token counters: how much a prompt comes to, without asking anybody."""
