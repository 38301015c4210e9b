"""Scores given by people."""
