"""What `agentv check` finds beyond single values: gates, names, the whole of a project."""
