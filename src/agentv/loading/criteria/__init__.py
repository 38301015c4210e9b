"""Named criteria, and the configuration of the criteria API."""
