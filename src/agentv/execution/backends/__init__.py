"""Run work: concurrent workers of this process, and worker processes for user functions."""
