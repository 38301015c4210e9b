"""Which program a file to convert is from, by its shape."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

from agentv.loading.importers.inspect_log import SUFFIX as INSPECT_SUFFIX
from agentv.loading.importers.inspect_log import is_inspect_json
from agentv.loading.importers.located import Converted, Losses, open_located
from agentv.loading.importers.promptfoo import convert_promptfoo, is_promptfoo
from agentv.types.errors import ConfigError, EvalFileError

Convert: TypeAlias = Callable[[Path, Path], Converted]
"""Makes an eval file of a file; the second path is where it will be written."""

_CODE = (".js", ".mjs", ".cjs", ".ts", ".mts", ".cts")


def is_inspect_log(path: Path) -> bool:
    """Return True for a log of inspect, by its suffix, or by its first keys if it is JSON."""
    if path.suffix == INSPECT_SUFFIX:
        return True
    return path.suffix.lower() == ".json" and is_inspect_json(path)


def find_converter(path: Path) -> Convert | None:
    """Return the converter of a file; None if it is ours or unknown. Raises ConfigError for one that is code."""
    if path.suffix.lower() in _CODE:
        raise ConfigError(f"cannot convert {path}: it is code; let promptfoo write it as YAML or JSON first")
    if path.suffix.lower() not in {".yaml", ".yml", ".json"}:
        return None
    try:
        value = open_located(path, Losses()).value
    except EvalFileError:
        if path.suffix.lower() == ".json":
            raise
        return None  # the reader of our own files reports it
    if is_promptfoo(value):
        return convert_promptfoo
    if path.suffix.lower() == ".json":
        raise ConfigError(f"cannot convert {path}: it is of no known program; known: promptfoo and inspect")
    return None
