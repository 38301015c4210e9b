"""The environment of an installed program: its modules are compiled once, not at each start."""

import os
from pathlib import Path


def installed_environment(folder: Path, **more: str) -> dict[str, str]:
    """Return this environment with bytecode written to `folder`, even if it is disabled here."""
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**inherited, "PYTHONPYCACHEPREFIX": str(folder), **more}
