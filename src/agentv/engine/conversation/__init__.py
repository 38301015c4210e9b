"""A conversation with a target: what is said next, and the answers to all turns as one."""
