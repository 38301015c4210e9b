"""The report of one run, in every format."""
