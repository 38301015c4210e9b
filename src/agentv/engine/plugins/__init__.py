"""Plug-ins: discovery, import, checks, and conversion into specs."""
