"""Stored lines: the Structs of `types.records` written as JSON, read back, and brought up from older shapes."""
