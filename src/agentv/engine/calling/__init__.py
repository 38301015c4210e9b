"""One call: limits, retries, budget, caches, batches, and the answer made of the response."""
