"""Stores: a run folder on disk, a run in memory, and the records both are made of.

Nothing is imported here: what a run does not need of this room, it does not wait for.
"""
