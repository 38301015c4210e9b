"""pydantic's errors → plain sentences: what is wrong, what is allowed, what was probably meant."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from pydantic_core import ErrorDetails

from agentv.types.errors import nearest
from agentv.types.json_value import JsonValue


class Sentence(NamedTuple):
    """The three clauses of a problem."""

    message: str
    allowed: str | None = None
    suggestion: str | None = None


_WANTED = {
    "string_type": "text",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "list_type": "a list",
    "tuple_type": "a list",
    "dict_type": "an object",
    "mapping_type": "an object",
    "model_type": "an object",
    "model_attributes_type": "an object",
    "none_required": "nothing",
}
_YES = {"yes": "true", "on": "true", "y": "true", "no": "false", "off": "false", "n": "false"}
_NUMBER = re.compile(r"[-+]?[0-9]+(\.[0-9]*)?([eE][-+]?[0-9]+)?")


def kind_of(value: JsonValue) -> str:
    """Return what a value is, in words: `a number`, `text`, `a list`."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return "a number"
    if isinstance(value, str):
        return "text"
    if isinstance(value, Mapping):
        return "an object"
    return "a list" if isinstance(value, list | tuple) else f"a {type(value).__name__}"  # Python's, among JSON


def wanted_by(error: ErrorDetails) -> str | None:
    """Return what should stand there, when an error is about the sort of value; None for other errors."""
    if error["type"] == "literal_error":
        return f"one of {', '.join(_expected(error))}"
    return _WANTED.get(error["type"])


def _expected(error: ErrorDetails) -> list[str]:
    """Return the literals, which stand there as `'a', 'b' or 'c'`."""
    return re.findall(r"'([^']*)'", str(error.get("ctx", {}).get("expected", "")))


def mismatch(errors: Sequence[ErrorDetails], raw: JsonValue, *, as_written: bool = True) -> Sentence:
    """Return the sentence for a value of the wrong sort; several errors are the branches of one choice.

    Without `as_written` the value is not what stands in the file, and there is no advice on how to write it.
    """
    wanted = list(dict.fromkeys(filter(None, map(wanted_by, errors))))
    choices = [name for error in errors if error["type"] == "literal_error" for name in _expected(error)]
    if choices and isinstance(raw, str):
        allowed = f"allowed: {', '.join(choices)}"
        return Sentence(f"{raw[:60]!r} is not allowed here", allowed, nearest(raw, choices))
    is_fraction = isinstance(raw, float) and wanted == ["a whole number"]
    kind = f"the fraction {raw}" if is_fraction else kind_of(raw)
    return Sentence(f"must be {' or '.join(wanted)}, but is {kind}", _advice(wanted, raw) if as_written else None)


def _advice(wanted: Iterable[str], raw: JsonValue) -> str | None:
    if "text" in wanted and (isinstance(raw, int | float)):
        return "put it in quotes"
    if not isinstance(raw, str):
        return None
    if "true or false" in wanted and raw.lower() in _YES:
        return f"write {_YES[raw.lower()]}"
    if {"a number", "a whole number"} & set(wanted) and _NUMBER.fullmatch(raw):
        return "remove the quotes"
    return 'write it as a list: ["…"]' if "a list" in wanted and "an object" not in wanted else None


def sentence(error: ErrorDetails, raw: JsonValue) -> Sentence:
    """Return the sentence for one error about the value `raw`."""
    if wanted_by(error) is not None:
        return mismatch([error], raw)
    context = error.get("ctx", {})
    match error["type"]:
        case "missing":
            key = error["loc"][-1]
            return Sentence(f"the key {key!r} is missing" if isinstance(key, str) else f"item {key + 1} is missing")
        case "too_long":
            return Sentence(f"must have at most {context['max_length']} items")
        case "value_error":
            return Sentence(str(context["error"]))
        case "union_tag_invalid" | "union_tag_not_found":
            return _tag_sentence(error)
        case "finite_number":
            return Sentence("must be a finite number")
        case "too_short" if context["min_length"] != 1:
            return Sentence(f"must have at least {context['min_length']} items")
        case "string_too_short" | "too_short":
            return Sentence("must not be empty")
        case _:
            return Sentence(_bound(error["type"], context) or error["msg"].replace("Input should", "must"))


def _bound(type_: str, context: Mapping[str, object]) -> str | None:
    words = {
        "greater_than": ("gt", "more than"),
        "greater_than_equal": ("ge", "at least"),
        "less_than": ("lt", "less than"),
        "less_than_equal": ("le", "at most"),
    }
    if type_ not in words:
        return None
    key, phrase = words[type_]
    bound = context[key]
    shown = f"{bound:g}" if isinstance(bound, int | float) else str(bound)
    return f"must be {phrase} {shown}"


def _tag_sentence(error: ErrorDetails) -> Sentence:
    context = error.get("ctx", {})
    key = str(context["discriminator"]).strip("'")
    if error["type"] == "union_tag_not_found":
        return Sentence(f"the key {key!r} is missing")
    known = re.findall(r"'([^']*)'", str(context["expected_tags"]))
    tag = str(context["tag"])
    return Sentence(f"unknown {key} {tag!r}", f"allowed: {', '.join(known)}", nearest(tag, known))
