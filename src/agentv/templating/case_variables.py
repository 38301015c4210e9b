"""`{{ name }}` in eval files and judge prompts: variables with paths and filters, without code.

A value that was filled in is not searched for further variables. `${{ NAME }}` is not a variable, and
`{% raw %}…{% endraw %}` marks text that is not filled.
"""

import re
from collections.abc import Callable, Mapping
from typing import TypeAlias

from msgspec import Struct

from agentv.types.errors import nearest
from agentv.types.json_value import JsonValue
from agentv.types.messages_json import compact_json

FILTERS = ("json", "upper", "lower", "trim", "default(x)")
PREFIX = "vars."
"""`{{ vars.name }}` is the variable even where `name` is a built-in name."""

_STRING = r"\"[^\"]*\"|'[^']*'"
_TOKEN = re.compile(
    r"\{%-?\s*raw\s*-?%\}(?:(?P<raw>.*?)\{%-?\s*endraw\s*-?%\}|(?P<open_raw>.*))"
    r"|(?P<tag>\{%-?\s*\w+)"
    rf"|(?<!\$)\{{\{{\s*(?P<name>[^\W\d](?:[^{{}}\"'|]*))(?P<filters>(?:\|(?:[^{{}}\"'|]|{_STRING})*)*)\}}\}}"
    r"|(?<!\$)(?P<open>\{\{\s*[^\W\d][\w.-]*\s*\}(?!\}))",
    re.DOTALL,
)
_FILTER = re.compile(rf"\|\s*(\w+)\s*(?:\(\s*({_STRING}|[^()\"'|]*)\s*\))?\s*")


class Fault(Struct, frozen=True):
    """A variable or tag that cannot be filled. `is_undefined` is True for a name without a value."""

    message: str
    allowed: str | None = None
    suggestion: str | None = None
    is_undefined: bool = False


Report: TypeAlias = Callable[[Fault], None]


_OPEN_RAW = Fault("{% raw %} has no {% endraw %}")


def has_variables(text: str) -> bool:
    """Return True if `fill_text` may change a text."""
    return ("{{" in text or "{%" in text) and _TOKEN.search(text) is not None


def used_names(text: str) -> tuple[str, ...]:
    """Return the variables that a text uses, each once, without `vars.` and without the path after the name."""
    found = (match["name"] for match in _TOKEN.finditer(text) if match["name"])
    return tuple(dict.fromkeys(name.strip().removeprefix(PREFIX).split(".")[0] for name in found))


def fill_text(text: str, values: Mapping[str, JsonValue], report: Report) -> JsonValue:
    """Return a text with its variables filled; a text that is one variable becomes the value, with its type.

    A variable or tag with a fault is reported and left as written.
    """
    only_token = _TOKEN.fullmatch(text.strip())
    if only_token is not None and only_token["name"]:
        value, is_filled = _value(only_token, values, report)
        if not is_filled:
            return text
        if not isinstance(value, str):
            return value
        return text.replace(only_token[0], value)

    def replacement(match: re.Match[str]) -> str:
        if match["raw"] is not None:
            return match["raw"]
        if match["open_raw"] is not None:
            report(_OPEN_RAW)
            return match[0]
        if match["tag"]:
            report(_tag_fault(match["tag"]))
            return match[0]
        if match["open"]:
            report(Fault(f"{match[0]!r} does not end with '}}}}'", allowed=_HOW_TO_ESCAPE))
            return match[0]
        value, is_filled = _value(match, values, report)
        return as_text(value) if is_filled else match[0]

    return _TOKEN.sub(replacement, text)


def fill_prompt(template: str, value_of: Callable[[str], str | None], values: Mapping[str, JsonValue]) -> str:
    """Return a judge prompt with built-in names and variables filled in one pass; built-in names take precedence.

    A name with filters is always a variable. A name without a value is left as written.
    """

    def replacement(match: re.Match[str]) -> str:
        if match["raw"] is not None:
            return match["raw"]
        if not match["name"]:
            return match[0]
        built_in = None if match["filters"] else value_of(match["name"].strip())
        if built_in is not None:
            return built_in
        value, is_filled = _value(match, values, lambda _fault: None)
        return as_text(value) if is_filled else match[0]

    return _TOKEN.sub(replacement, template)


def prompt_faults(
    template: str, is_built_in: Callable[[str], bool], values: Mapping[str, JsonValue]
) -> tuple[Fault, ...]:
    """Return the faults of a judge prompt; built-in names without filters are not checked."""
    faults: list[Fault] = []
    for match in _TOKEN.finditer(template):
        if match["open_raw"] is not None:
            faults.append(_OPEN_RAW)
        if match["name"] and (match["filters"] or not is_built_in(match["name"].strip())):
            _value(match, values, faults.append)
    return tuple(dict.fromkeys(faults))


def as_text(value: JsonValue) -> str:
    """Return a value as text: a string unchanged, any other value as JSON."""
    return value if isinstance(value, str) else compact_json(value)


def find_value(name: str, values: Mapping[str, JsonValue]) -> tuple[JsonValue, bool]:
    """Return the value of `name` or `a.b`, and True if there is one.

    A name is looked up as written, and then without `vars.` in front. A key that contains dots, such
    as the column `metadata.level`, is preferred to a path.
    """
    for path in dict.fromkeys((name, name.removeprefix(PREFIX))):
        if path in values:
            return values[path], values[path] is not None
        first, *rest = path.split(".")
        value = values.get(first)
        for key in rest:
            if isinstance(value, Mapping):
                value = value.get(key)
            elif isinstance(value, list | tuple) and key.isdecimal() and int(key) < len(value):
                value = value[int(key)]
            else:
                value = None
        if value is not None:
            return value, True
    return None, False


_HOW_TO_ESCAPE = "to keep it as text, write {% raw %}…{% endraw %}"


def _tag_fault(tag: str) -> Fault:
    word = tag.strip("{%- \t\r\n")
    return Fault(
        f"'{{% {word} … %}}' is not supported: only {{% raw %}} is, and code is not evaluated", allowed=_HOW_TO_ESCAPE
    )


def _value(match: re.Match[str], values: Mapping[str, JsonValue], report: Report) -> tuple[JsonValue, bool]:
    """Return the value for a match and True; without a value, report the fault and return False."""
    name, filters = match["name"].strip(), match["filters"]
    value, has_value = find_value(name, values)
    steps = [(found[1], found[2]) for found in _FILTER.finditer(filters)]
    unread = _FILTER.sub("", filters).strip()
    if unread or not all(_is_valid_filter(*step) for step in steps):
        known = ", ".join(FILTERS)
        report(Fault(f"{match[0]!r} cannot be read", allowed=f"filters: {known}; {_HOW_TO_ESCAPE}"))
        return None, False
    for filter_name, argument in steps:
        if filter_name == "default":
            value, has_value = (value if has_value else _literal(argument)), True
        elif filter_name == "json":
            has_value = has_value or _is_variable(name, values)  # null is a JSON value
            value = compact_json(value) if has_value else None
        elif has_value:
            value = _TEXT_FILTERS[filter_name](as_text(value))
    if not has_value:
        report(_undefined(name, values))
    return value, has_value


_TEXT_FILTERS: Mapping[str, Callable[[str], str]] = {"upper": str.upper, "lower": str.lower, "trim": str.strip}


def _is_valid_filter(name: str, argument: str | None) -> bool:
    """Return True for a known filter; only `default` has an argument."""
    if name == "default":
        return argument is not None
    return argument is None and (name == "json" or name in _TEXT_FILTERS)


def _is_variable(name: str, values: Mapping[str, JsonValue]) -> bool:
    return name.removeprefix(PREFIX) in values


def _literal(written: str) -> JsonValue:
    """Return the argument of `default`: a quoted text, a number, true or false; any other word is a text."""
    written = written.strip()
    if written[:1] in ("'", '"'):
        return written[1:-1]
    if written in ("true", "false"):
        return written == "true"
    try:
        return int(written)
    except ValueError:
        pass
    return float(written) if re.fullmatch(r"-?\d+\.\d+", written) else written


_MAX_LISTED = 30


def _undefined(name: str, values: Mapping[str, JsonValue]) -> Fault:
    if _is_variable(name, values):
        return Fault(
            f"the variable {name!r} has no value",
            allowed=f"give it one, or write {{{{ {name} | default('…') }}}}",
            is_undefined=True,
        )
    listed = [*values][:_MAX_LISTED]
    more = f" and {len(values) - len(listed)} more" if len(values) > len(listed) else ""
    known = f"known: {', '.join(listed) or 'none'}{more}"
    near = nearest(name.removeprefix(PREFIX), values)
    return Fault(
        f"there is no variable {name!r}", allowed=f"{known}; {_HOW_TO_ESCAPE}", suggestion=near, is_undefined=True
    )
