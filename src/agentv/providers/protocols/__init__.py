"""Servers and agents behind open protocols: tools over MCP, agents over A2A."""
