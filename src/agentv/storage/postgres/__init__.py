"""Copies of a team's runs in a PostgreSQL database; the run folders remain authoritative.

Lines are stored byte for byte as in the run folder, with keys and numbers in additional columns.
"""
