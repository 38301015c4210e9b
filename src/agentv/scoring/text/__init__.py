"""Texts compared: forms, similarity, words."""
