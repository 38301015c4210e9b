"""Frozen dataclasses, protocols and exceptions; imports only the standard library."""
