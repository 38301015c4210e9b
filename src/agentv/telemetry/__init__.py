"""OpenTelemetry: traces of agents decoded and joined into answers, and evaluations sent to collectors."""
