"""Messages, answers and log lines as other programs write them, read as agentv's own: one reader for each shape."""
