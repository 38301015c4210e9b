"""The command line: one module per command, grouped in packages by topic."""
