"""The SQLite index over stored runs; derived, and made again when it is deleted."""
