"""Backends that run the work: workers of this process."""
