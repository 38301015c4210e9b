"""Calls of targets and judges: limits, retries, budget, caches, batches, and the answer made of a response."""
