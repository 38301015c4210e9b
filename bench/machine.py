"""The machine and the versions of a measurement."""

import os
import platform
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path

from agentv import __version__

MEASURED_WITH = ("rapidfuzz", "ahocorasick-rs", "msgspec")
"""The packages whose versions affect the numbers."""


def description(peers: str = "") -> str:
    """Return one sentence with versions, machine and load; `peers` are the versions of other tools."""
    packages = ", ".join(f"{name} {version(name)}" for name in MEASURED_WITH)
    load, _, _ = os.getloadavg()
    return (
        f"agentv {__version__}, {platform.python_implementation()} {platform.python_version()}, {packages}{peers}; "
        f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores of {_processor()}, load {load:.1f}."
    )


def _processor() -> str:
    try:
        lines: Iterable[str] = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:  # not Linux
        lines = ()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor() or "an unknown processor")
