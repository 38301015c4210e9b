"""Similarity, sentiment, keywords and terms of texts."""
