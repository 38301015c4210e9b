"""The report of `agentv compare`."""
