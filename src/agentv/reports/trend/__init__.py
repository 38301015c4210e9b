"""The report of `agentv trend`."""
