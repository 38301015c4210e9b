"""Evaluators in their short form, `contains=30 days`, and the eval file that a file of rows is with them."""

import json
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import cast

from msgspec import structs
from pydantic_core import ValidationError

from agentv.loading.datasets.rows import open_rows
from agentv.loading.files.composer import compose, resolve_plain
from agentv.loading.files.kinds import LINE_SUFFIXES, ROW_SUFFIXES, start_of
from agentv.loading.files.places import side_file
from agentv.loading.files.text import read_lines
from agentv.loading.models.core_schema import reader_of
from agentv.loading.models.eval_files import ROLES, CaseModel
from agentv.loading.models.file_model import SpellingNotes
from agentv.loading.suites.cases import is_case
from agentv.registry import Specs
from agentv.types.errors import ConfigError
from agentv.types.json_value import JsonObject, JsonValue

_JUDGED_BY = frozenset(
    "expected_outcome criteria rubrics evaluators evaluator grader add_evaluators execution assertions assert".split()  # noqa: SIM905 - a list of words
)
"""Keys of cases, also of AgentV 4, that say what an answer is judged by."""


def settings_of(type_: str, value: JsonValue, specs: Specs) -> Mapping[str, JsonValue]:
    """Return the settings that an evaluator in its short form, such as `contains="30 days"`, stands for.

    A dict is the settings, and `True` means no settings. Any other value is the value of the only required setting. For
    a judge without a required setting, a text is the expected outcome. Raises ConfigError for a value to which none of
    these rules applies.
    """
    settings_class = specs.evaluators.get(type_).load_settings()
    if isinstance(value, Mapping):
        return value
    if value is True:
        return {}
    fields = structs.fields(settings_class)
    required = [field.encode_name for field in fields if field.required]
    if len(required) == 1:
        return {required[0]: value}
    is_judge = any(field.name == "plain_prompt" for field in fields)
    if not required and is_judge and isinstance(value, str):
        return {"prompt": value, "plain_prompt": "outcome"}
    names = ", ".join(field.encode_name for field in fields)
    raise ConfigError(
        f"{type_}={value!r}: write the settings as an object ({{type: {type_}, …}}); its settings are: {names}"
    )


def short_evaluators(texts: Sequence[str], specs: Specs) -> list[JsonObject]:
    """Return evaluators, as eval files have them, from texts such as `contains=30 days`, `is_json` or `{type: …}`.

    Raises ConfigError, also for an unknown type.
    """
    found: list[JsonObject] = []
    for text in texts:
        entry = _short_evaluator(text, specs)
        names = {each["name"] for each in found}
        name = str(entry["name"])
        number = next(number for number in range(1, len(texts) + 1) if _numbered(name, number) not in names)
        found.append({**entry, "name": _numbered(name, number)})
    return found


def _numbered(name: str, number: int) -> str:
    return name if number == 1 else f"{name}-{number}"


def _short_evaluator(text: str, specs: Specs) -> JsonObject:
    whole = _object(text)
    if whole is not None:
        return {"name": whole.get("type", "evaluator"), **whole}
    type_, has_value, written = (part.strip() for part in text.partition("="))
    specs.evaluators.get(type_)  # raises UnknownNameError with the known types
    value = True if not has_value else _object(written) or written
    settings = settings_of(type_, value, specs)
    if isinstance(value, str):
        settings = _fitted(settings, specs.evaluators.get(type_).load_settings())
    return {"name": type_, "type": type_, **settings}


def _object(text: str) -> JsonObject | None:
    """Return a text in braces as an object; None for any other text, such as `{{ name }}`."""
    if not text.startswith("{") or text.startswith("{{"):
        return None
    document, problems = compose(text, "--evaluator")
    value = None if document is None or problems else document.value
    if not isinstance(value, Mapping):
        raise ConfigError(f"--evaluator {text}: not an object as in an eval file, such as {{type: contains, value: x}}")
    return value


def _fitted(settings: Mapping[str, JsonValue], settings_class: type) -> Mapping[str, JsonValue]:
    """Return settings with a text as the number or the list that its setting needs; unchanged if neither fits."""
    read: Callable[[object, SpellingNotes], object] = reader_of(settings_class)
    for change in (lambda text: text, resolve_plain, lambda text: [text]):
        changed = {key: change(value) if isinstance(value, str) else value for key, value in settings.items()}
        try:
            read(changed, SpellingNotes())
        except (ValidationError, ValueError):
            continue
        return cast(Mapping[str, JsonValue], changed)
    return settings


def is_rows_file(path: Path) -> bool:
    """Return True for a file that has rows and no evaluators: a table, a list in JSON, or lines without a side file."""
    suffix = path.suffix.lower()
    if suffix in LINE_SUFFIXES:
        return side_file(path) is None
    return suffix in ROW_SUFFIXES or (suffix == ".json" and start_of(path).lstrip().startswith("["))


def lacks_evaluators(path: Path) -> bool:
    """Return True for a file of rows that names nothing to judge answers by: a table, a list, or lines without cases.

    Of lines, the first one decides: one with an evaluator, or with an outcome that a judge checks, is a case.
    """
    is_rows = is_rows_file(path)
    if not is_rows or path.suffix.lower() not in LINE_SUFFIXES:
        return is_rows
    first = _first_object(path)
    if first is None or is_case(first):
        return False
    keys = {CaseModel.names().of(key) or key for key in first}
    return any(ROLES.get(key) == "input" for key in first) and keys.isdisjoint(_JUDGED_BY)


def _first_object(path: Path) -> JsonObject | None:
    """Return the object on the first line that is not blank; None for another value."""
    line = next((line for line in read_lines(path) if line.strip()), b"")
    try:
        value: object = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def content_of_rows(path: Path, evaluators: Sequence[str], specs: Specs) -> bytes:
    """Return the content of the eval file that consists of a file of rows and evaluators in their short form."""
    listed = short_evaluators(evaluators, specs)
    return json.dumps({"evaluators": listed, "evalcases": {"file": path.name}}).encode()


def advice_on_rows(path: Path, shown: str) -> str:
    """Return the two ways to run a file of rows: with an evaluator, or with the four lines of an eval file."""
    column = _answer_column(path)
    eval_file = Path(shown).with_suffix(".yaml")
    return f"""{shown} has rows, but no evaluators that judge the answers. Name one:
  agentv run {shown} --evaluator contains='{{{{ {column} }}}}'
or write these lines to {eval_file}, and run that file:
  evaluators:
    - {{name: right, type: contains, value: "{{{{ {column} }}}}"}}
  evalcases:
    file: {path.name}"""


def _answer_column(path: Path) -> str:
    """Return the column that most likely has the expected answers: by its name, else the last one."""
    rows = open_rows(path)
    first = next(iter(islice(rows, 1)), None) if rows is not None else None
    columns = list(_first_object(path) or () if rows is None else () if first is None else first.values)
    named = (name for name in ("answer", *(name for name, role in ROLES.items() if role == "expected")))
    return next((name for name in named if name in columns), columns[-1] if columns else "expected")
