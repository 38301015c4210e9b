"""Write JSON values as readable YAML: block style, multi-line texts as literal blocks."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence

from agentv.messages.shapes.objects import MAX_LEVELS, TOO_DEEP
from agentv.reports.text.printable import UNSAFE
from agentv.types.json_value import JsonObject, JsonValue

_PLAIN_SCALAR = re.compile(r"[A-Za-z_](?:[^:#\n\t]*[^:#\n\t ])?")
_RESERVED = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n", "nan", "inf"})
_MAX_INDENT = 2 * MAX_LEVELS + 20
_MAX_IMPLICIT_KEY_CHARS = 1000
"""Longer keys are written as `? key`: YAML readers search at most 1,024 characters for the colon after a key."""


def yaml_item(record: JsonObject) -> str:
    """Return a record as an item of a YAML list, ending with a newline."""
    lines = list(_mapping(record, ""))
    return "".join(f"{'- ' if index == 0 else '  '}{line}\n" if line else "\n" for index, line in enumerate(lines))


def yaml_mapping(record: JsonObject) -> str:
    """Return a record as a YAML document, ending with a newline."""
    return "".join(f"{line}\n" for line in _mapping(record, ""))


def yaml_line(value: JsonValue) -> str:
    """Return a value as YAML on one line, in the syntax of JSON except for escapes above U+FFFF."""
    return UNSAFE.sub(_escape, json.dumps(value, ensure_ascii=False))


def _mapping(value: JsonObject, indent: str) -> Iterator[str]:
    for key, item in value.items():
        name = _scalar(key)
        if len(name) > _MAX_IMPLICIT_KEY_CHARS:
            yield f"{indent}? {name}"
            name = ""
        yield from _entry(f"{indent}{name}:", item, indent)


def _sequence(value: Sequence[JsonValue], indent: str) -> Iterator[str]:
    for item in value:
        if isinstance(item, Mapping) and item:
            first, *others = _mapping(item, f"{indent}  ")
            yield f"{indent}- {first.lstrip()}"
            yield from others
        else:
            yield from _entry(f"{indent}-", item, indent)


def _entry(head: str, value: JsonValue, indent: str) -> Iterator[str]:
    """Yield `head` (`key:` or `-`) with its value on the same line or indented below."""
    inner = f"{indent}  "
    if len(inner) > _MAX_INDENT and isinstance(value, Mapping | list | tuple):
        value = TOO_DEEP
    if isinstance(value, str):
        if "\n" in value and value.strip() and not UNSAFE.search(value):
            yield f"{head} {_block_header(value)}"
            # An empty line needs no indent in a literal block, and would end in blanks with one.
            yield from (f"{inner}{line}" if line else "" for line in _block_lines(value))
        else:
            yield f"{head} {_scalar(value)}"
    elif isinstance(value, Mapping) and value:
        yield head
        yield from _mapping(value, inner)
    elif isinstance(value, Sequence) and value:
        yield head
        yield from _sequence(value, inner)
    elif isinstance(value, Mapping | Sequence):
        yield f"{head} {'{}' if isinstance(value, Mapping) else '[]'}"
    else:
        yield f"{head} {_scalar(value)}"


def _block_header(text: str) -> str:
    """Return the header of a literal block, such as `|2-`; the indent is given if the text starts with white space."""
    indent = "2" if text[0] in " \n\t" else ""
    if not text.endswith("\n"):
        return f"|{indent}-"
    return f"|{indent}+" if text.endswith("\n\n") else f"|{indent}"


def _block_lines(text: str) -> list[str]:
    return text.removesuffix("\n").split("\n")


def _scalar(value: JsonValue) -> str:
    if isinstance(value, float):
        return _number(value)
    if isinstance(value, str) and "\n" not in value and "\t" not in value and not UNSAFE.search(value):
        if _PLAIN_SCALAR.fullmatch(value) and value.lower() not in _RESERVED:
            return value
        if '"' in value or "\\" in value:
            return "'" + value.replace("'", "''") + "'"
    return yaml_line(value)


def _number(value: float) -> str:
    """Return a float as YAML readers expect it: `1e-05` needs a decimal point."""
    text = repr(value)
    mantissa, mark, exponent = text.partition("e")
    return f"{mantissa}.0e{exponent}" if mark and "." not in mantissa else text


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"  # noqa: PLR2004 - the widths of YAML's own escapes
