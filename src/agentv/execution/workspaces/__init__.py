"""Workspaces: copies of folders and repositories in which agents work, and the changes they make."""
