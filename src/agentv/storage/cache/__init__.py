"""Responses and embeddings that are saved between runs."""
