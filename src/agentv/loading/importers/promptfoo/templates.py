"""Texts of promptfoo, which are Nunjucks templates, as texts with our variables."""

import re
from collections.abc import Mapping

from agentv.loading.importers.located import Located
from agentv.types.json_value import JsonValue

_TAG = re.compile(
    r"(?P<raw>\{%-?\s*raw\s*-?%\}.*?\{%-?\s*endraw\s*-?%\})"
    r"|(?P<comment>\{#.*?#\})"
    r"|(?P<block>\{%.*?%\})"
    r"|\{\{-?\s*(?P<inner>.*?)\s*-?\}\}",
    re.DOTALL,
)
_VARIABLE_PATH = re.compile(r"[^\W\d]\w*(?:\.\w+|\[\s*(?:\d+|'[^']+'|\"[^\"]+\")\s*\])*")
_INDEX_STEP = re.compile(r"\[\s*(?:(\d+)|'([^']+)'|\"([^\"]+)\")\s*\]")
_FILTER_CALL = re.compile(r"\s*(\w+)\s*(?:\(\s*(\"[^\"]*\"|'[^']*'|-?\d+(?:\.\d+)?)\s*\))?\s*")
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


def is_template(text: str) -> bool:
    """Return True for a text with variables, code or comments."""
    return re.search(r"\{[{%#]", text) is not None


def variables_of(text: str) -> tuple[str, ...]:
    """Return the names in the `{{ }}` of a promptfoo text, without those that its code assigns."""
    found = (match["inner"] for match in _TAG.finditer(text) if match["inner"])
    paths = (_VARIABLE_PATH.match(inner) for inner in found)
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

    def replacement(match: re.Match[str]) -> str:
        if match["raw"]:
            return match[0]
        if match["comment"]:
            return ""
        if match["block"]:
            advice = "write a text for each variant, or put the finished text into a variable"
            place.lose(f"{_short(match[0])} is not carried over: texts have variables, but no code", advice)
            return _literal(match[0])
        ours = _expression(match["inner"])
        if ours is None:
            place.lose(f"{_short(match[0])} is not carried over", "a variable may have a path and the filters "
                       "json, upper, lower, trim and default(x)")  # fmt: skip
            return _literal(match[0])
        is_assigned = _first_name(match["inner"].strip()) in assigned  # by code in the text, which is recorded
        return _literal(match[0]) if is_assigned else ours

    return _TAG.sub(replacement, text)


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
        return _TAG.sub(lambda match: _environment(match, place), value)
    if isinstance(value, Mapping):
        return {key: with_environment(item, place) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [with_environment(item, place) for item in value]
    return value


def _environment(match: re.Match[str], place: Located) -> str:
    found = _ENVIRONMENT.fullmatch(match["inner"] or "")
    if found is not None:
        return f"${{{{ {found[1]} }}}}"
    if match["block"]:
        place.lose(f"{_short(match[0])} is not carried over", "only ${{ NAME }} is read from the environment")
    return match[0]


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
