"""The environment of a program that is installed: its modules are compiled once, not at each start."""

import os
from pathlib import Path


def installed_environment(folder: Path, **more: str) -> dict[str, str]:
    """Return this environment with compiled modules kept in `folder`, whatever is said here of writing them."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, "PYTHONPYCACHEPREFIX": str(folder), **more}
