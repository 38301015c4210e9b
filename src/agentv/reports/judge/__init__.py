"""The reports of `agentv judge`."""
