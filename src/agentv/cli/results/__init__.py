"""Commands that show results: show, compare, trend, report, baseline."""
