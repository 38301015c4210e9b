"""The SQLite index over stored runs: derived from the run folders, and rebuilt when it is deleted."""
