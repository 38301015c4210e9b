"""Parsing of judge models' replies: JSON objects, verdicts, rubrics and criteria."""
