"""Copies of folders and repositories that agents work in, and what changed there."""
