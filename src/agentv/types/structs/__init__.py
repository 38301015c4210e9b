"""Helpers for value classes: names of fields, keywords in camelCase, deep copies."""
