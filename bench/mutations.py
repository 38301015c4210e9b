"""Random damage to files: by bytes, characters, lines and values. The random generator is an argument."""

import io
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile, ZipInfo

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
    "\u202e",
    "e\u0301",
    "\r",
    "NaN",
    "-Infinity",
)
_TOKENS = {
    '"@deep list@"': "[" * 5000 + "]" * 5000,
    '"@deep object@"': '{"a":' * 5000 + "1" + "}" * 5000,
    '"@long number@"': "9" * 5000,
    '"@not a number@"': "NaN",
    '"@infinity@"': "-Infinity",
    '"@huge@"': "1e999",
}
"""What no Python value can be turned into: a value in a document, and the text that then takes its place."""

_VALUES: tuple[Any, ...] = (
    *(json.loads(token) for token in _TOKENS),
    False,
    -0.0,
    1e308,
    2**63,
    -(10**18),
    " ",
    "0.5",
    "\x00",
    "\ud800",
    "a\nb\u2028c\x1b[31md",
    "x" * 100_000,
    "../../../../etc/passwd",
    "~",
    ".",
    "{{ question }}",
    "2026-99-99T25:61:61Z",
    "a{99999999}",
    "(",
    "**/*",
    [1] * 2000,
    [{}],
    {"": None},
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

_SafeLoader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def damaged(text: str, chance: random.Random) -> bytes:
    """Return a file's text with one, two or four random changes, as bytes."""
    for _ in range(chance.choice((1, 1, 1, 2, 4))):
        change = chance.choice(_CHANGES)
        text = change(text, chance)
    data = text.encode("utf-8", "surrogatepass")
    return _damaged_bytes(data, chance) if chance.randrange(10) == 0 else data


def damaged_file(path: Path, chance: random.Random) -> bytes:
    """Return a file with random changes. Of an archive, either its bytes are changed or the text of a member."""
    data = path.read_bytes()
    if path.suffix == ".eval" and chance.randrange(2):
        return _damaged_member(path, chance)
    if path.suffix not in (".eval", ".parquet"):
        return damaged(data.decode(), chance)
    for _ in range(chance.choice((1, 1, 2, 4))):
        data = _damaged_bytes(data, chance)
    return data


def _damaged_member(path: Path, chance: random.Random) -> bytes:
    """Return an archive in which the text of one member is damaged."""
    whole = io.BytesIO()
    with ZipFile(path) as old, ZipFile(whole, "w", chance.choice((ZIP_STORED, ZIP_DEFLATED))) as new:
        chosen = chance.choice(old.namelist())
        for name in old.namelist():
            data = old.read(name)
            new.writestr(ZipInfo(name), damaged(data.decode(), chance) if name == chosen else data)
    return whole.getvalue()


def _damaged_bytes(data: bytes, chance: random.Random) -> bytes:
    """Flip a bit, replace a byte, cut a piece out or repeat it."""
    at, end = sorted((chance.randint(0, len(data)), chance.randint(0, len(data))))
    match chance.randrange(4):
        case 0 if at < len(data):
            return data[:at] + bytes([data[at] ^ 1 << chance.randrange(8)]) + data[at + 1 :]
        case 1 if at < len(data):
            return data[:at] + bytes([chance.randrange(256)]) + data[at + 1 :]
        case 2:
            return data[:at] + data[end:]
        case _:
            return data[:end] + data[at:]


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
    """Replace, add, remove, rename or exchange one value somewhere inside; text that is not data is unchanged."""
    lines = text.split("\n")
    at = chance.randrange(len(lines))
    if len(lines) > 1 and lines[at].startswith("{"):  # JSON Lines
        lines[at] = _change_value(lines[at], chance)
        return "\n".join(lines)
    try:
        value = _parsed(text)
    except (yaml.YAMLError, ValueError, RecursionError):
        return text
    places = list(_places(value))
    if not places:
        return text
    _change_place(*chance.choice(places), places, chance)
    try:
        changed = json.dumps(value, ensure_ascii=chance.choice((True, False)), default=str)
    except (TypeError, ValueError):
        return text
    for token, written in _TOKENS.items():
        changed = changed.replace(token, written)
    return changed


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return yaml.load(text, _SafeLoader)  # noqa: S506 - it is a safe loader


def _change_place(owner: Any, key: Any, places: list[tuple[Any, Any]], chance: random.Random) -> None:
    match chance.randrange(7):
        case 0:
            del owner[key]
        case 1 if isinstance(owner, dict):
            owner[chance.choice(_KEYS)] = owner[key]
        case 2 if isinstance(owner, dict):
            owner[chance.choice(_KEYS)] = chance.choice(_VALUES)
        case 3 if isinstance(owner, dict) and isinstance(key, str):
            owner[chance.choice((key.upper(), key[:-1], f"{key} ", key[::-1]))] = owner.pop(key)
        case 4:
            other, place = chance.choice(places)
            owner[key] = json.loads(json.dumps(other[place], default=str))
        case _:
            owner[key] = chance.choice(_VALUES)


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
