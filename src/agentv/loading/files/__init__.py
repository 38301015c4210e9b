"""Low-level file access: YAML, JSON and text with the position of every value, attachments, `.env`, atomic writes."""
