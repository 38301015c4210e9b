"""Benchmarks of agentv, alone and compared with other tools: `./run python -m bench`. README.md has the last tables."""
