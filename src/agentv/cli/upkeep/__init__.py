"""Commands about what is stored: runs, cache, store."""
