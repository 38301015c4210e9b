"""OpenTelemetry: evaluations sent to collectors, over OTLP's wire format of our own."""
