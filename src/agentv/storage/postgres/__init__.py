"""Runs of a team in a PostgreSQL database, beside the run folders, which stay the truth.

Lines are kept byte for byte as the run folder has them, with keys and numbers beside them as columns.
"""
