"""Targets files: targets, their settings, and the choice of a target."""
