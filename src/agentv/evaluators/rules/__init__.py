"""Deterministic rules on a text, alone or as a list."""
