"""Tool calls and traces: recorded calls, trajectories, metrics."""
