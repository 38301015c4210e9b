"""A list of everything that eval files, and the targets and project files around them, would execute, read or send.

The files are only read: keys and values are listed as written, including those that agentv does not know.
"""

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from agentv.loading.datasets.rows import open_rows
from agentv.loading.files.documents import Document, JsonPath, Mark, shown_path
from agentv.loading.files.dotenv import ENV_FILE
from agentv.loading.files.json_lines import parse_json, quick_json
from agentv.loading.files.kinds import (
    FUNCTION_REFERENCE,
    SKILLS_FILE,
    TABLE_SUFFIXES,
    YAML_SUFFIXES,
    kind_of_file,
)
from agentv.loading.files.places import find_eval_files, find_repository_root, find_targets_file, upward
from agentv.loading.files.text import decode, read_lines, shown
from agentv.loading.models.reader import open_yaml
from agentv.loading.project import config_files, paths_to_read
from agentv.loading.suites.named_definitions import find_criteria_file
from agentv.loading.suites.prompts import named_prompt_file
from agentv.loading.suites.suites import read_suite
from agentv.registry import Specs
from agentv.templating.case_variables import used_names
from agentv.templating.environment import REFERENCE
from agentv.types.errors import EvalFileError
from agentv.types.json_value import JsonValue

SCHEMA = "agentv-untrusted-1"
_ROW_SUFFIXES = (*TABLE_SUFFIXES, ".json")
"""The suffixes of datasets that `_uses_of_rows` reads, row by row."""

KINDS = ("command", "callable", "plug-in", "provider", "url", "variable", "path")

_COMMAND_KEYS = frozenset(
    {
        "script",
        "command",
        "command_template",
        "prompt_script",
        "executable",
        "args",
        "setup",
        "teardown",
        "aggregator.path",
    }
)
_CALLABLE_KEYS = frozenset({"python", "callable"})
_URL_KEYS = ("url", "base_url", "endpoint", "resource", "resource_name", "store")
_PROMPT_DEPTH = 2
"""The length of the path of a prompt that is a single string."""
_KIND_OF_KEY = {"provider": "provider", "plugins": "plug-in", **dict.fromkeys(_URL_KEYS, "url")}
_TARGET_KEYS = frozenset({"target", "targets", "judge", "judges", "llm", "judge_target", "fallback_targets"})
_MODEL_NAME = re.compile(r"[A-Za-z][\w-]*:[^\s/]\S*")
"""A model in place of a target's name, `provider:model`; it is called with the API key from the environment."""
_PATH_KEYS = frozenset(
    {"file", "files", "cwd", "log_dir", "template", "git", "run", "against_run", "workspace_template", "subagent_root"}
    | {"evalcases", "cases", "toxic_terms"}
)
_DATASET_KEYS = frozenset({"file", "evalcases", "cases"})
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://\S+")
_CAMEL_BOUNDARY = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_PATH_LIKE = re.compile(r"(?:\.{1,2}/|/|~)\S*|\S+/\S+\.\w{1,8}|\S+\.(?:md|txt|py|sh|js|jsonl?|ya?ml|csv|toml)")


class Use(Struct, frozen=True):
    """A value that a file names: its kind (one of `KINDS`), the value as written, its line, and its JSON path `at`."""

    kind: str
    value: str
    path: str
    line: int
    at: str


def list_uses(
    paths: Sequence[str | Path], *, cwd: Path, specs: Specs, allow_paths: Sequence[str] = ()
) -> tuple[Use, ...]:
    """Return the uses in eval files and the files around them, in the order of `KINDS`, each once.

    Raises ConfigError for a path that does not exist, and EvalFileError for a file that cannot be read.
    """
    found: dict[Use, None] = {}
    for file in find_eval_files(paths_to_read(paths, cwd=cwd), cwd=cwd):
        columns = _file_columns(file)
        for path in _files_around(file, cwd, specs, allow_paths):
            for document in _documents_of(path):
                found.update(dict.fromkeys(_uses(document)))
            for row_use in _uses_of_rows(path, columns):
                found[row_use] = None
    return tuple(sorted(found, key=lambda use: KINDS.index(use.kind)))


def to_text(uses: Sequence[Use]) -> str:
    """Return one line for each use, grouped by kind."""
    if not uses:
        return "nothing is executed, read or sent"
    width = max(len(use.kind) for use in uses)
    return "\n".join(f"{use.kind:<{width}}  {_one_line(use.value)}  ({use.path}:{use.line}  {use.at})" for use in uses)


def _one_line(text: str) -> str:
    return text if text.isprintable() else json.dumps(text)[1:-1]


def _files_around(file: Path, cwd: Path, specs: Specs, allow_paths: Sequence[str]) -> Iterator[Path]:
    """Yield an eval file, its files of cases, and the targets, project and `.env` files that a run would use."""
    yield file
    folder = file.resolve().parent
    root = find_repository_root(folder)
    if file.suffix == ".jsonl" or kind_of_file(file) == "eval":
        yield from read_suite(file, specs, plugins_imported=False, allow_paths=allow_paths).files
    targets = find_targets_file(folder, root, cwd, None)
    criteria = find_criteria_file(folder, root)
    yield from (path for path in (targets, criteria) if path is not None)
    yield from config_files(folder, root)
    nearest_env = next((place / ENV_FILE for place in upward(folder) if (place / ENV_FILE).is_file()), None)
    if nearest_env is not None:
        yield nearest_env


def _documents_of(path: Path) -> Iterator[Document]:
    """Yield the documents of a file: one per line of JSON Lines, only the name of a `.env`, none for a table."""
    if path.name == ENV_FILE:
        yield Document(shown(path), {"file": shown(path)}, Mark(1, 1))
    elif path.suffix in YAML_SUFFIXES or path.name == SKILLS_FILE:
        yield open_yaml(path).document
    elif path.suffix.lower() not in _ROW_SUFFIXES:
        for number, line in enumerate(read_lines(path), 1):
            if not line.strip():
                continue
            text = decode(line.rstrip(b"\r\n"), shown(path))
            quick = quick_json(text, shown(path), number)
            document, problems = (quick, ()) if quick is not None else parse_json(text, shown(path), number)
            if document is None:
                raise EvalFileError(shown(path), problems)
            yield document


def _file_columns(path: Path) -> frozenset[str]:
    """Return the variables of an eval file's messages that name attached files."""
    if path.suffix not in YAML_SUFFIXES:
        return frozenset()
    document = open_yaml(path).document
    texts = (
        text
        for at, text in _texts_and_commands(document.value, ())
        if at[-1] == "value" and document.at((*at[:-1], "type")) in ("file", "image")
    )
    return frozenset(name for text in texts for name in used_names(text))


def _uses_of_rows(path: Path, columns: Collection[str]) -> Iterator[Use]:
    """Yield the attached files that the rows of a dataset name; other values are only sent to the target."""
    rows = open_rows(path) if columns and path.suffix.lower() in (*_ROW_SUFFIXES, *YAML_SUFFIXES) else None
    for row in rows or ():
        for name in columns:
            value = row.values.get(name)
            if isinstance(value, str) and value:
                yield Use("path", value, path=shown(path), line=row.line, at=f"$.{name}")


def _uses(document: Document) -> Iterator[Use]:
    for at, text in _texts_and_commands(document.value, ()):
        for kind, value in _kinds_of(at, text, document):
            yield Use(kind, value, path=document.path, line=document.mark(at).line, at=shown_path(at))


def _kinds_of(at: JsonPath, text: str, document: Document) -> Iterator[tuple[str, str]]:
    """Yield kind and value of each use in a string, by its key, or because of a variable, a URL or a path in it."""
    for name in REFERENCE.findall(text):
        yield "variable", name
    if at[0] == "prompts" and len(at) == _PROMPT_DEPTH and (file := named_prompt_file(text)) is not None:
        yield "path", file
        return
    key, parent = _key(at), _key(at[:-1] if isinstance(at[-1], str) else at[:-2])
    part_type = document.at((*at[:-1], "type"))
    if key in _DATASET_KEYS and FUNCTION_REFERENCE.fullmatch(text):
        yield "callable", text
        return
    if key not in ("value", "content", *_URL_KEYS):  # texts of messages and expectations are only sent to the target
        yield from (("url", url) for url in _URL.findall(text))
    if text.startswith("python:") or key in _CALLABLE_KEYS:
        yield "callable", text
    elif key in _KIND_OF_KEY:
        yield _KIND_OF_KEY[key], text
    elif key in _TARGET_KEYS and _MODEL_NAME.fullmatch(text):
        yield "provider", text
    elif key in _COMMAND_KEYS or f"{parent}.{key}" in _COMMAND_KEYS:
        yield "command", text
    elif _is_path(key, text) or (key == "value" and part_type in ("file", "image")):
        yield "path", text


def _is_path(key: str, text: str) -> bool:
    if key in _PATH_KEYS:
        return "\n" not in text
    return _PATH_LIKE.fullmatch(text.strip()) is not None


def _key(at: JsonPath) -> str:
    """Return the last key of a path in snake_case; for items of a list, the key of the list."""
    key = next((key for key in reversed(at) if isinstance(key, str)), "")
    return _CAMEL_BOUNDARY.sub("_", key).lower()


def _texts_and_commands(value: JsonValue, at: JsonPath) -> Iterator[tuple[JsonPath, str]]:
    if isinstance(value, str):
        yield at, value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            if key in ("script", "args") and isinstance(item, list | tuple) and not any(map(_is_container, item)):
                yield (*at, key), " ".join(map(str, item))  # one command in several words
            else:
                yield from _texts_and_commands(item, (*at, key))
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from _texts_and_commands(item, (*at, index))


def _is_container(value: JsonValue) -> bool:
    return isinstance(value, Mapping | list | tuple)
