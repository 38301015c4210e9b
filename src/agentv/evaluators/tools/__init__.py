"""Evaluators of tool calls and traces."""
