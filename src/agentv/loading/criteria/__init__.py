"""The configuration of the criteria API."""
