"""Targets files: targets, their settings, and the choice among them."""
