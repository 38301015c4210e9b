"""Statistics of runs: intervals, tests and power."""
