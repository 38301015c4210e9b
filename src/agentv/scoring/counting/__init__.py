"""Rows counted: summaries, groups, tallies, durations, forecasts."""
