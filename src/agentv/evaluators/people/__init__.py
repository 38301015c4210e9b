"""Scores that people gave."""
