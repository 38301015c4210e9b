"""Texts of promptfoo, which are Nunjucks templates, as texts with our variables."""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Literal

from msgspec import Struct

from agentv.importers.located import Located
from agentv.types.json_value import JsonValue

_OPENING = re.compile(r"\{[{%#]")
_CLOSINGS = {"{{": "}}", "{%": "%}", "{#": "#}"}
_RAW = re.compile(r"\{%-?\s*+raw\s*+-?%\}")
_END_OF_RAW = re.compile(r"\{%-?\s*+endraw\s*+-?%\}")
_VARIABLE_PATH = re.compile(r"[^\W\d]\w*(?:\.\w+|\[\s*(?:\d+|'[^']+'|\"[^\"]+\")\s*\])*")
_INDEX_STEP = re.compile(r"\[\s*(?:(\d+)|'([^']+)'|\"([^\"]+)\")\s*\]")
_FILTER_CALL = re.compile(r"\s*+(\w++)\s*+(?:\(\s*+(\"[^\"]*\"|'[^']*'|-?\d+(?:\.\d+)?)\s*+\)\s*+)?")
_OUR_FILTERS = {
    "dump": "json",
    "tojson": "json",
    "upper": "upper",
    "uppercase": "upper",
    "lower": "lower",
    "lowercase": "lower",
    "trim": "trim",
    "default": "default",
    "d": "default",
    "safe": "",
    "string": "",
}
"""Our name of each filter; "" if it has no effect here and is left out."""
_ENVIRONMENT = re.compile(r"(?:process\.)?env\.(\w+)")


class _Tag(Struct, frozen=True):
    """A variable, block or comment of a text, from `{` to `}`."""

    start: int
    text: str
    kind: Literal["variable", "block", "comment", "raw"]
    inner: str = ""
    """The expression of a variable, else ""."""


def _tags(text: str) -> Iterator[_Tag]:
    """Yield the tags of a text, in time linear in its length: a closing that is missing is searched only once."""
    at, missing = 0, set[str]()
    while (opening := _OPENING.search(text, at)) is not None:
        start, at = opening.start(), opening.start() + 1
        if (tag := _tag(text, start, missing)) is not None:
            yield tag
            at = start + len(tag.text)


def _tag(text: str, start: int, missing: set[str]) -> _Tag | None:
    """Return the tag that starts here; None if it has no end. `missing` are the ends that do not follow any more."""
    closing = _CLOSINGS[text[start : start + 2]]
    if closing == "%}" and "endraw" not in missing and (raw := _RAW.match(text, start)) is not None:
        end_of_raw = _END_OF_RAW.search(text, raw.end())
        if end_of_raw is not None:
            return _Tag(start, text[start : end_of_raw.end()], "raw")
        missing.add("endraw")
    end = -1 if closing in missing else text.find(closing, start + 2)
    if end < 0:
        missing.add(closing)
        return None
    written = text[start : end + 2]
    if closing != "}}":
        return _Tag(start, written, "block" if closing == "%}" else "comment")
    return _Tag(start, written, "variable", written[2:-2].removeprefix("-").removesuffix("-").strip())


def _with_tags_replaced(text: str, replacement: Callable[[_Tag], str]) -> str:
    parts, at = list[str](), 0
    for tag in _tags(text):
        parts += (text[at : tag.start], replacement(tag))
        at = tag.start + len(tag.text)
    return "".join((*parts, text[at:]))


def is_template(text: str) -> bool:
    """Return True for a text with variables, code or comments."""
    return re.search(r"\{[{%#]", text) is not None


def variables_of(text: str) -> tuple[str, ...]:
    """Return the names in the `{{ }}` of a promptfoo text, without those that its code assigns."""
    paths = (_VARIABLE_PATH.match(tag.inner) for tag in _tags(text))
    names = dict.fromkeys(_first_name(path[0]) for path in paths if path)
    assigned = _assigned_names(text)
    return tuple(name for name in names if name not in assigned)


def _first_name(path: str) -> str:
    return re.split(r"[.\[]", path)[0]


_ASSIGNMENT = re.compile(r"\{%-?\s*(?:for\s+(\w+)(?:\s*,\s*(\w+))?\s+in|set\s+(\w+)\s*=)")


def _assigned_names(text: str) -> frozenset[str]:
    """Return the names that `for` and `set` assign in a text, and `loop` if there are any."""
    found = {name for match in _ASSIGNMENT.finditer(text) for name in match.groups() if name}
    return frozenset({*found, "loop"} if found else ())


def our_text(text: str, place: Located) -> str:
    """Return a promptfoo text with our variables, without comments.

    Code and expressions without a counterpart are recorded and stay as literal text.
    """
    assigned = _assigned_names(text)

    def replacement(tag: _Tag) -> str:
        if tag.kind == "raw":
            return tag.text
        if tag.kind == "comment":
            return ""
        if tag.kind == "block":
            advice = "write a text for each variant, or put the finished text into a variable"
            place.lose(f"{_short(tag.text)} is not carried over: texts have variables, but no code", advice)
            return _literal(tag.text)
        ours = _expression(tag.inner)
        if ours is None:
            place.lose(f"{_short(tag.text)} is not carried over", "a variable may have a path and the filters "
                       "json, upper, lower, trim and default(x)")  # fmt: skip
            return _literal(tag.text)
        is_assigned = _first_name(tag.inner) in assigned  # by code in the text, which is recorded
        return _literal(tag.text) if is_assigned else ours

    return _with_tags_replaced(text, replacement)


_QUOTED_VARIABLE = re.compile(r"""(['"`])\{\{-?\s*([^\W\d]\w*)\s*-?\}\}\1""")


def code_with_variables(code: str, expression: str) -> str | None:
    """Return code in which each quoted variable, such as '{{ name }}', is `expression` with the name for NAME.

    Return None if other parts of a template remain: values of variables must not become code.
    """
    replaced = _QUOTED_VARIABLE.sub(lambda match: expression.replace("NAME", match[2]), code)
    return None if is_template(replaced) else replaced


def our_value(value: JsonValue, place: Located) -> JsonValue:
    """Return a value with our variables in all its texts."""
    if isinstance(value, str):
        return our_text(value, place)
    if isinstance(value, Mapping):
        return {key: our_value(item, place) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [our_value(item, place) for item in value]
    return value


def with_environment(value: JsonValue, place: Located) -> JsonValue:
    """Return a setting with `{{ env.NAME }}` as `${{ NAME }}`; other variables such as `{{ prompt }}` stay.

    Code stays too, and is recorded.
    """
    if isinstance(value, str):
        return _with_tags_replaced(value, lambda tag: _environment(tag, place))
    if isinstance(value, Mapping):
        return {key: with_environment(item, place) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [with_environment(item, place) for item in value]
    return value


def _environment(tag: _Tag, place: Located) -> str:
    found = _ENVIRONMENT.fullmatch(tag.inner)
    if found is not None:
        return f"${{{{ {found[1]} }}}}"
    if tag.kind == "block":
        place.lose(f"{_short(tag.text)} is not carried over", "only ${{ NAME }} is read from the environment")
    return tag.text


def _expression(inner: str) -> str | None:
    """Return an expression such as `name | dump` as our `{{ name | json }}`; None if it has no counterpart."""
    head, *filters = inner.split("|")
    if _ENVIRONMENT.match(head.strip()) or not _VARIABLE_PATH.fullmatch(head.strip()):
        return None
    parts = [_INDEX_STEP.sub(lambda step: f".{step[1] or step[2] or step[3]}", head.strip())]
    for text in filters:
        match = _FILTER_CALL.fullmatch(text)
        ours = _OUR_FILTERS.get(match[1]) if match else None
        if match is None or ours is None:
            return None
        has_argument = match[2] is not None
        if has_argument != (ours == "default"):  # the only filter with an argument
            return None
        if ours:
            parts.append(f"default({match[2]})" if ours == "default" else ours)
    return f"{{{{ {' | '.join(parts)} }}}}"


def _literal(text: str) -> str:
    return f"{{% raw %}}{text}{{% endraw %}}"


def _short(text: str) -> str:
    one_line = " ".join(text.split())
    return one_line if len(one_line) <= 60 else f"{one_line[:57]}..."  # noqa: PLR2004 - a line of a terminal
