"""Random damage to files, by characters, by lines, and by values. The random generator is an argument."""

import json
import random
from collections.abc import Callable
from typing import Any

import yaml

_PIECES: tuple[str, ...] = (
    *"[]{}:,-?&*!|>'\"#%@`\t\n \\$~",
    "\x00",
    "\x07",
    "\x85",
    "\u2028",
    "\ufeff",
    "\ud7ff",
    "😀",
    "&a ",
    "*a",
    "<<: ",
    "<<: *a\n",
    "!!python/object:os.system ",
    "!!binary ",
    "---\n",
    "...\n",
    "%YAML 1.1\n",
    ".inf",
    ".nan",
    "1e999",
    "0o17",
    "9" * 5000,
    "null",
    "yes",
    "${{ VAR }}",
    "${{",
    "{{ question }}",
    "- ",
    "  ",
    ": ",
    "[[[[[[[[",
    "\\ud800",
)
_VALUES: tuple[Any, ...] = (
    None,
    True,
    -1,
    0,
    2.5,
    10**30,
    "",
    "text",
    "a" * 500,
    "${{ VAR }}",
    [],
    {},
    ["text", 1, None],
    {"name": "x"},
    {"type": "text", "value": 3},
    [[[[]]]],
)
_KEYS = (
    "id",
    "name",
    "type",
    "value",
    "evaluators",
    "content",
    "weight",
    "x",
    "<<",
    "$schema",
    "maxRetries",
    "retry",
    "é",
)


def damaged(text: str, chance: random.Random) -> bytes:
    """Return a file's text with one to four random changes, as bytes."""
    for _ in range(chance.randint(1, 4)):
        change = chance.choice(_CHANGES)
        text = change(text, chance)
    data = text.encode("utf-8", "surrogatepass")
    if chance.random() < 0.05 and data:
        at = chance.randrange(len(data))
        data = data[:at] + bytes([chance.randrange(256)]) + data[at + 1 :]
    return data


def _insert(text: str, chance: random.Random) -> str:
    at = chance.randint(0, len(text))
    return text[:at] + chance.choice(_PIECES) + text[at:]


def _delete(text: str, chance: random.Random) -> str:
    at = chance.randint(0, len(text))
    return text[:at] + text[at + chance.randint(1, 12) :]


def _truncate(text: str, chance: random.Random) -> str:
    return text[: chance.randint(0, len(text))]


def _change_lines(text: str, chance: random.Random) -> str:
    lines = text.split("\n")
    at, other = chance.randrange(len(lines)), chance.randrange(len(lines))
    match chance.randrange(4):
        case 0:
            lines[at], lines[other] = lines[other], lines[at]
        case 1:
            lines.insert(other, lines[at])
        case 2:
            del lines[at]
        case _:
            lines[at] = " " * chance.randint(0, 6) + lines[at].lstrip()
    return "\n".join(lines)


def _change_value(text: str, chance: random.Random) -> str:
    """Replace, add or remove one value somewhere inside; text that is not YAML any more is unchanged."""
    try:
        value = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError):
        return text
    places = list(_places(value))
    if not places:
        return text
    owner, key = chance.choice(places)
    match chance.randrange(4):
        case 0:
            del owner[key]
        case 1 if isinstance(owner, dict):
            owner[chance.choice(_KEYS)] = owner[key]
        case 2 if isinstance(owner, dict):
            owner[chance.choice(_KEYS)] = chance.choice(_VALUES)
        case _:
            owner[key] = chance.choice(_VALUES)
    try:
        return json.dumps(value, ensure_ascii=False, default=str)
    except (TypeError, ValueError):
        return text


def _places(value: Any) -> list[tuple[Any, Any]]:
    keys = list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    return [(value, key) for key in keys] + [place for key in keys for place in _places(value[key])]


_CHANGES: tuple[Callable[[str, random.Random], str], ...] = (
    _insert,
    _insert,
    _delete,
    _truncate,
    _change_lines,
    _change_value,
    _change_value,
    _change_value,
)
