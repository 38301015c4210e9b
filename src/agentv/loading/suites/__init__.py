"""Eval files: suites, cases, their evaluators and attached files."""
