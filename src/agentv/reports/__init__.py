"""Reports: progress while a run goes on, what it came to, and its rows as files.

Nothing is imported here: a run that writes no report does not wait for all of them.
"""
