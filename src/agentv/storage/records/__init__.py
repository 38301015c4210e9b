"""Stored lines: encode the Structs of `types.records` as JSON, decode them, and upgrade older formats."""
