"""Reliability of a judge: its agreement with people, and its consistency."""
