"""Replies of judge models: JSON found, verdicts read, rubrics and criteria matched."""
