"""`python -m agentv` and the `agentv` command."""

from agentv.cli.main import main

if __name__ == "__main__":
    main()
