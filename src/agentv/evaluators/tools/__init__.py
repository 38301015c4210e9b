"""Which tools an agent called, and what its trace shows."""
