"""A run on several machines: the driver leases rows to nodes, which send back the lines to store."""
