"""Plug-ins: found, imported, checked and turned into specs."""
