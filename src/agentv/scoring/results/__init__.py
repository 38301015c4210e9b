"""Conversion of evaluators' outputs to results: completion, aggregation, scales, sources."""
