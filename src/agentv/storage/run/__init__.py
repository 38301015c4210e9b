"""The folder of a run: its lines, lock, blobs and labels; written, read, found and merged."""
