"""Runs that exist: resumed, rescored, reported, compared over time."""
