"""Who runs the work: workers of this process."""
