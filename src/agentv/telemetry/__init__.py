"""OpenTelemetry: traces of agents decoded and joined into answers, and evaluations sent to collectors.

OTLP's wire format is read and written here. Nothing here calls a network but what sends evaluations.
"""
