"""Targets on this machine: commands, Python functions, web services, recorded and canned answers."""
