"""The folder of a run (lines, lock, blobs, labels): writing, reading, finding and merging runs."""
