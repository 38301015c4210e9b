"""Bytes of files: YAML, JSON and text with the position of every value, attachments, `.env`, safe writes."""
