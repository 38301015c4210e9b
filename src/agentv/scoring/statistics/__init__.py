"""Statistics of runs: what their numbers can and cannot tell."""
