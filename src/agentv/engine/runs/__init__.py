"""A whole run: its plan executed on this machine or a cluster, up to its report."""
