"""Translations of documents into our keys, and the protocols of those that the room `importers` makes."""
