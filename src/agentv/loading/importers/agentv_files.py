"""The import of one eval file of AgentV 1.5 to 4.42, or of Agent Skills, with the files of its cases."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct, field

from agentv.loading.files.documents import Document
from agentv.loading.files.text import shown
from agentv.loading.importers.generations import (
    FIFTH_MESSAGE,
    Generation,
    differs_from_ours,
    fifth_key,
    find_generation,
    generation_of_lines,
    promptfoo_sign,
)
from agentv.loading.models.reader import Reader
from agentv.loading.models.references import holds_reference
from agentv.types.errors import EvalFileError
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.problems import Problem

if TYPE_CHECKING:
    from agentv.loading.importers.agentv_suites import FileTranslator, SuiteDefaults


def is_skills_file(value: JsonValue) -> bool:
    """Return True for the content of an `evals.json`."""
    return isinstance(value, Mapping) and isinstance(value.get("evals"), list | tuple)


_INSPECT_LOG = "a log of inspect"
_UNREADABLE = {
    ".ts": "TypeScript suites are not read",
    ".mts": "TypeScript suites are not read",
    ".js": "JavaScript suites are not read",
    ".eval": _INSPECT_LOG,
}
"""Suffixes of suites that are programs, and of logs, with the error message for each."""
_PROMPTFOO_MESSAGE = "a promptfoo configuration, which is not an eval file"


def convert_advice(path: Path, kind: str = "") -> str:
    """Return the command that converts a file of another program: to an eval file, or from its log to a stored run."""
    result, output = ("a stored run", ".agentv/runs") if "log" in kind else ("one", "suite.yaml")
    return f"make {result} of it with: agentv convert {shown(path)} -o {output}"


def check_readable(path: Path) -> None:
    """Raise EvalFileError for a suite that is a program, and for a log of inspect."""
    if path.suffix in _UNREADABLE:
        kind = _UNREADABLE[path.suffix]
        advice = convert_advice(path, kind) if kind == _INSPECT_LOG else None
        message = f"{kind}, which is not an eval file" if advice else kind
        raise EvalFileError(shown(path), (Problem(shown(path), message, allowed=advice),))


class AgentvImport(Struct):
    """The translation of one eval file and its files of cases.

    `without_effect` counts the keys so far that have no effect here, each with a warning, and `ignored` those that are
    left out without one. `env` fills references to variables; None leaves them as they are.
    """

    generation: Generation
    folders: tuple[Path, ...]
    is_known_type: Callable[[str], bool]
    env: Mapping[str, str] | None = field(default_factory=dict)
    defaults: "SuiteDefaults | None" = None
    without_effect: int = 0
    ignored: int = 0
    is_skills: bool = False
    files: list[Path] = field(default_factory=list)
    """The files whose content was put into others, such as templates of evaluators."""
    about: JsonObject = field(default_factory=dict)

    def applies_to(self, value: JsonValue) -> bool:
        """Return True if the content of a file must be translated."""
        return self.generation.is_foreign or (self.generation == Generation.FIRST and differs_from_ours(value))

    @property
    def kind(self) -> str:
        """The kind of the file, for messages."""
        return "Agent Skills evals" if self.is_skills else f"{self.generation.title} eval file"

    @property
    def sentence(self) -> str:
        """The kind of the file, and the number of its keys without meaning here; "" for a file in our own keys."""
        if not self.generation.is_foreign:
            return ""
        count = self.without_effect
        suffix = "" if not count else f", {count} {'key has' if count == 1 else 'keys have'} no meaning here"
        return f"{self.kind}{suffix}"

    def suite(self, source: Reader) -> "ImportedReader":
        """Translate the top level of the file, and the cases in it."""
        return self._translated(source, lambda translator: translator.suite(), of_suite=True)

    def cases(self, source: Reader) -> "ImportedReader":
        """Translate another file of cases, or one line of JSON."""
        value = source.document.value
        return self._translated(source, lambda translator: translator.cases(value))

    def _translated(
        self, source: Reader, translate: "Callable[[FileTranslator], Document]", *, of_suite: bool = False
    ) -> "ImportedReader":
        # Most eval files are ours, and need no translator.
        from agentv.loading.importers.agentv_suites import FileTranslator, with_agentv_keys, without_positions  # noqa: PLC0415
        from agentv.loading.importers.case_texts import with_environment  # noqa: PLC0415

        source = _without_key_problems(source)
        written = source.document
        if of_suite and is_skills_file(source.document.value):
            source = Reader(with_agentv_keys(source.document), source.problems)
        if self.generation == Generation.FOURTH and holds_reference(source.document.value):
            source = source if self.env is None else with_environment(source, self.env)
        given_problems = list(source.problems)
        translator = FileTranslator(
            source, self.generation, folders=self.folders, is_known_type=self.is_known_type, defaults=self.defaults
        )
        document = translate(translator)
        self.without_effect += translator.report.without_effect
        self.ignored += translator.report.ignored
        self.files += [path for path in translator.report.files if path not in self.files]
        if of_suite:
            self.defaults, self.about = without_positions(translator.defaults), translator.about
        return ImportedReader(document, given_problems, source, written)


class ImportedReader(Reader):
    """A reader of a translated document. all_problems() gives its problems the paths of the file before translation."""

    def __init__(self, document: Document, problems: Sequence[Problem], source: Reader, written: Document) -> None:
        super().__init__(document, problems)
        self._source = source
        self._written = written

    def all_problems(self) -> list[Problem]:
        """Return the problems of the translation, then those of reading the result."""
        from agentv.loading.importers.translation import with_source_paths  # noqa: PLC0415 - few files are AgentV's

        of_translation = self._source.problems
        if self._source.document is not self._written:
            of_translation = with_source_paths(of_translation, self._written)
        return [*of_translation, *with_source_paths(self.problems, self._written)]


def problems_of(reader: Reader) -> list[Problem]:
    """Return the problems of a reader, including those of its translation."""
    return reader.all_problems() if isinstance(reader, ImportedReader) else reader.problems


def _without_key_problems(source: Reader) -> Reader:
    """Return a reader without the problems about number keys in `score_ranges`, where AgentV allows them."""
    others = [each for each in source.problems if not _is_about_score_key(each)]
    return source if len(others) == len(source.problems) else Reader(source.document, others)


def _is_about_score_key(problem: Problem) -> bool:
    is_about_key = problem.message.startswith("the key ") and problem.message.endswith("must be a string")
    return is_about_key and problem.json_path.endswith(".score_ranges")


def start_import(
    value: JsonValue,
    *,
    base: Path,
    root: Path,
    is_known_type: Callable[[str], bool],
    env: Mapping[str, str] | None,
    lines: Sequence[JsonValue] = (),
) -> AgentvImport:
    """Return the import of the eval file with this content; `lines` are the first cases of a dataset of lines."""
    # A `name` at the top level is AgentV's key, so the lines are cases of AgentV.
    is_named = isinstance(value, Mapping) and "name" in value
    of_lines = find_generation(list(lines)) if is_named else generation_of_lines(lines)
    generation = max(find_generation(value), of_lines)
    if isinstance(value, Mapping) and "dialect" in value:
        generation = find_generation(value)
    folders = [folder for folder in (base, *base.parents) if folder == base or folder.is_relative_to(root)]
    return AgentvImport(generation, tuple(folders), is_known_type, env, is_skills=is_skills_file(value))


def foreign_file_problem(value: JsonValue, path: Path, reader: Reader) -> Problem | None:
    """Return the problem of a promptfoo configuration, or of a file of AgentV 5; None for another file."""
    sign = promptfoo_sign(path.name, value)
    if sign is not None:
        return _problem_at(sign, path, reader, _PROMPTFOO_MESSAGE, convert_advice(path))
    key = fifth_key(value)
    if key is None:
        return None
    advice = f"`{key}` was added in AgentV 5; if this is a file of agentv, write `dialect: agentv` at the top"
    return _problem_at(key, path, reader, FIFTH_MESSAGE, advice)


def _problem_at(key: str, path: Path, reader: Reader, message: str, advice: str) -> Problem:
    """Return a problem of the file, at one of its keys; with "" at its start."""
    place = reader.document.mark((key,) if key else (), on_key=True)
    at = f"$.{key}" if key else "$"
    return Problem(shown(path), message, line=place.line, column=place.column, json_path=at, allowed=advice)
