"""Traces of agents that other programs instrument: decoded, mapped to messages, and joined into answers."""
