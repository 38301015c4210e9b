"""Comparison of texts: forms, similarity, words."""
