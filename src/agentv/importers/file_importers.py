"""The importers as loading asks for them: the program that a file is written for, and the translation of AgentV's."""

from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path

import msgspec
from msgspec import Struct

from agentv.importers.agentv.ambiguity import warn_of_other_meanings
from agentv.importers.agentv.files import AgentvImport, is_skills_file
from agentv.importers.agentv.generations import (
    DIALECT_KEY,
    FIFTH_MESSAGE,
    Generation,
    fifth_key,
    find_generation,
    generation_of_lines,
    has_agentv_words,
    is_agentv_targets,
    promptfoo_sign,
)
from agentv.loading.files.documents import Document
from agentv.loading.files.text import BYTE_ORDER_MARK, read_lines, shown
from agentv.loading.models.reader import Reader
from agentv.loading.suites.other_evaluators import other_tools_advice
from agentv.loading.translation.translation import Translation
from agentv.registry import Specs
from agentv.types.errors import EvalFileError
from agentv.types.json_value import JsonValue
from agentv.types.problems import Problem

_INSPECT_LOG = "a log of inspect"
_UNREADABLE = {
    ".ts": "TypeScript suites are not read",
    ".mts": "TypeScript suites are not read",
    ".js": "JavaScript suites are not read",
    ".eval": _INSPECT_LOG,
}
"""Suffixes of suites that are programs, and of logs, with the error message for each."""
_PROMPTFOO_MESSAGE = "a promptfoo configuration, which is not an eval file"
_LINES_INSPECTED = 100


class FileImporters(Struct, frozen=True):
    """The importers of all files, as the protocol Importers of loading describes them."""

    specs: Specs
    """The plug-ins that the files may name."""

    def check_readable(self, path: Path) -> None:
        """Raise EvalFileError for a suite that is a program, and for a log of inspect."""
        if path.suffix in _UNREADABLE:
            kind = _UNREADABLE[path.suffix]
            advice = _convert_advice(path, kind) if kind == _INSPECT_LOG else None
            message = f"{kind}, which is not an eval file" if advice else kind
            raise EvalFileError(shown(path), (Problem(shown(path), message, allowed=advice),))

    def start_suite(self, top: Reader, path: Path, *, env: Mapping[str, str] | None, root: Path) -> AgentvImport:
        """Return the import of an eval file. Raises EvalFileError for one of promptfoo or of AgentV 5."""
        problem = _foreign_file_problem(top, path)
        if problem is not None:
            raise EvalFileError(shown(path), (problem,))
        value, base = top.document.value, path.resolve().parent
        folders = [folder for folder in (base, *base.parents) if folder == base or folder.is_relative_to(root)]
        is_known_type = self.specs.evaluators.__contains__
        generation = _generation_of(value, path)
        if not generation.is_foreign:
            warn_of_other_meanings(top)
        return AgentvImport(generation, tuple(folders), is_known_type, env, is_skills=is_skills_file(value))

    def program_of(self, value: JsonValue) -> str:
        """Return the version of AgentV that the content of an eval file is written for; "" for ours."""
        generation = find_generation(value)
        return generation.title if generation.is_foreign else ""

    def find_other_program(self, path: Path) -> Problem | None:
        """Return the problem of a file of another program that `agentv convert` reads; None for another file."""
        from agentv.importers.recognition import other_program  # noqa: PLC0415 - only files with errors need it

        name = other_program(path)
        if name is None:
            return None
        return Problem(shown(path), f"{name}, which is not an eval file", 1, 1, allowed=_convert_advice(path, name))

    def translate_targets(self, document: Document, env: Mapping[str, str]) -> Translation | None:
        """Return the translation of a targets file of AgentV; None for one in our own keys."""
        if not is_agentv_targets(document.value, self.specs.providers):
            return None
        from agentv.importers.agentv.targets import translate_targets  # noqa: PLC0415 - few files are AgentV's

        return translate_targets(document, self.specs.providers, env)


def _generation_of(value: JsonValue, path: Path) -> Generation:
    """Return the generation of an eval file with this content; the cases of a dataset are its first lines."""
    lines = list(islice(_parsed_lines(path), _LINES_INSPECTED)) if path.suffix == ".jsonl" else []
    if isinstance(value, Mapping) and DIALECT_KEY in value:
        return find_generation(value)
    # A `name` at the top level is AgentV's key, so the lines are cases of AgentV.
    if isinstance(value, Mapping) and "name" in value and lines:
        least = Generation.SECOND if has_agentv_words(lines) else Generation.FIRST
        return max(find_generation(value), find_generation(lines), least)
    return max(find_generation(value), generation_of_lines(lines))


def _parsed_lines(path: Path) -> Iterator[JsonValue]:
    """Yield the values of the lines that are valid JSON."""
    for line in read_lines(path):
        try:
            yield msgspec.json.decode(line.removeprefix(BYTE_ORDER_MARK))
        except (ValueError, RecursionError):
            continue


def _foreign_file_problem(top: Reader, path: Path) -> Problem | None:
    """Return the problem of a promptfoo configuration, or of a file of AgentV 5; None for another file."""
    value = top.document.value
    sign = promptfoo_sign(path.name, value)
    if sign is not None:
        return _problem_at(sign, path, top, _PROMPTFOO_MESSAGE, _convert_advice(path))
    key = fifth_key(value)
    if key is None:
        return None
    advice = f"`{key}` was added in AgentV 5; if this is a file of agentv, write `dialect: agentv` at the top"
    equivalent = other_tools_advice(key)
    if equivalent is not None:
        advice = f"`{key}` was added in AgentV 5; if this is a file of agentv, {equivalent}"
    return _problem_at(key, path, top, FIFTH_MESSAGE, advice)


def _problem_at(key: str, path: Path, reader: Reader, message: str, advice: str) -> Problem:
    """Return a problem of the file, at one of its keys; with "" at its start."""
    place = reader.document.mark((key,) if key else (), on_key=True)
    at = f"$.{key}" if key else "$"
    return Problem(shown(path), message, line=place.line, column=place.column, json_path=at, allowed=advice)


def _convert_advice(path: Path, kind: str = "") -> str:
    """Return the command that converts a file of another program: to an eval file, or from its log to a stored run."""
    result, output = ("a stored run", ".agentv/runs") if "log" in kind else ("one", "suite.yaml")
    return f"make {result} of it with: agentv convert {shown(path)} -o {output}"
