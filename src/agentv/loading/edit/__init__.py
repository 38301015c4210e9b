"""Edits of files that people wrote: adding to cases without losing comments, and conversions."""
