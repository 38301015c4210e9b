"""Helpers of the tests: servers, processes, stored values, strategies."""
