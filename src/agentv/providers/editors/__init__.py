"""Agents of open editors, called through files."""
