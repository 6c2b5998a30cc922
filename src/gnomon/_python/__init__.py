"""Python code in a sandbox: what is asked of it, what runs there, and what may be believed of its answer."""
