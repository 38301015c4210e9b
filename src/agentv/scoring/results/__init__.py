"""From evaluators' outputs to results: completion, aggregation, scales, sources."""
