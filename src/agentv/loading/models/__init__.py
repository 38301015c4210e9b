"""Models of the files that people write, and their reader, which reports problems with positions."""
