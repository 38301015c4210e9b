"""Programs that do one job with one harness each, in an environment of their own, and print what it took."""
