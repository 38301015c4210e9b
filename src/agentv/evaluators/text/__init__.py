"""Evaluators of text: similarity, sentiment, keywords and toxic terms."""
