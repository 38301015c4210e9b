"""Comparison of two runs: paired cases, measured differences, and a one-line finding."""
