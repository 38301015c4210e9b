"""Logs, traces and transcripts as commands read them: files, folders and streams, line by line, up to the answers."""
