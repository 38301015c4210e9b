"""What agentv costs, measured side by side: `./run python -m bench`. README.md holds the last table."""
