"""Coding agents that run as programs: their commands, event streams and logs."""
