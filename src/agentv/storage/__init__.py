"""Stores: a run folder on disk, a run in memory, and the records both are made of.

This package imports nothing, so that importing one store does not load the others.
"""
