"""Spans and log records: read from OTLP, the SDK's own JSON and tracing backends, and OTLP written.

Nothing here knows what a span says of an agent.
"""
