"""Counts of rows: summaries, groups, tallies, durations, forecasts."""
