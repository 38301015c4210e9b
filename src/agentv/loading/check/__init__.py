"""The checks of `agentv check` beyond single values: gates, names, whole projects."""
