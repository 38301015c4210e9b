"""Machinery that has never heard of evals: processes, threads, retries, workers."""
