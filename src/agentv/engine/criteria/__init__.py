"""Criteria-based evaluation: given answers judged by named criteria."""
