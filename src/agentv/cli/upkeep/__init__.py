"""Commands for stored data: runs, cache, store."""
