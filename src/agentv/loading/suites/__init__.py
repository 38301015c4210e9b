"""Eval files: suites, cases and the datasets they come from, evaluators, criteria and attached files."""
