"""General-purpose execution: processes, threads, retries, rate limits, workers. Independent of evals."""
