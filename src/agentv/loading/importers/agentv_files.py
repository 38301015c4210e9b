"""The import of one eval file of AgentV 1.5 to 4.42, or of Agent Skills, with the files of its cases."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from msgspec import Struct, field

from agentv.loading.files.documents import Document
from agentv.loading.files.text import shown
from agentv.loading.importers.agentv_suites import FileTranslator, SuiteDefaults, without_places
from agentv.loading.importers.case_texts import holds_references, with_environment
from agentv.loading.importers.generations import (
    FIFTH,
    Generation,
    differs_from_ours,
    fifth_key,
    find_generation,
    generation_of_lines,
    is_agentv_suite,
)
from agentv.loading.importers.translation import Entries, Rewriter, Taken, is_list, with_source_paths
from agentv.loading.models.reader import Reader
from agentv.types.errors import EvalFileError
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.problems import Problem

_ASSERTIONS = ("assertions", "expectations")


def is_skills_file(value: JsonValue) -> bool:
    """Return True for the content of an `evals.json`."""
    return isinstance(value, Mapping) and is_list(value.get("evals"))


def with_agentv_keys(source: Document) -> Document:
    """Return the document of an `evals.json` with AgentV's keys; unknown keys stay as they are."""
    rewriter = Rewriter(source)
    given = rewriter.entries(Taken(source.value, ()))
    name = given.pop("skill_name", None)
    cases = given.pop("evals")
    made: Entries = {
        "tests": cases._replace(value=rewriter.list([_case(rewriter, each) for each in rewriter.items(cases)]))
    }
    if name is not None:
        made["name"] = name
        made["metadata"] = name._replace(value=rewriter.object({"skill_name": name}))
    return rewriter.document(rewriter.object({**made, **given}))


def _case(rewriter: Rewriter, taken: Taken) -> Taken:
    given = rewriter.entries(taken)
    if not given:
        return taken
    made = {key: item for key, item in given.items() if key not in ("prompt", "files", *_ASSERTIONS)}
    case_id = given.get("id")
    if case_id is not None and isinstance(case_id.value, int):
        made["id"] = case_id._replace(value=str(case_id.value))
    for ours, theirs in (("input", "prompt"), ("input_files", "files"), ("criteria", "expected_output")):
        if theirs in given:
            made[ours] = given[theirs]
    listed = next((given[key] for key in _ASSERTIONS if key in given), None)
    if listed is not None:
        judges = [_judge(rewriter, each, number) for number, each in enumerate(rewriter.items(listed), 1)]
        made["assertions"] = listed._replace(value=rewriter.list(judges))
    return taken._replace(value=rewriter.object(made))


def _judge(rewriter: Rewriter, taken: Taken, number: int) -> Taken:
    """Return a judge that checks the answer against one assertion."""
    if not isinstance(taken.value, str):
        return taken
    name, kind = Taken(f"assertion-{number}", taken.at), Taken("llm-grader", taken.at)
    return taken._replace(value=rewriter.object({"name": name, "type": kind, "prompt": taken}))


_INSPECT = "a log of inspect"
_UNREADABLE = {
    ".ts": "TypeScript suites are not read",
    ".mts": "TypeScript suites are not read",
    ".js": "JavaScript suites are not read",
    ".eval": _INSPECT,
}
"""Suffixes of suites that are programs, with the error message for each."""
_PROMPTFOO = "a promptfoo configuration, which is not an eval file"


def convert_advice(path: Path, what: str = "") -> str:
    """Return the command that converts a file of another program: to an eval file, or from its log to a stored run."""
    made, output = ("a stored run", ".agentv/runs") if "log" in what else ("one", "suite.yaml")
    return f"make {made} of it with: agentv convert {shown(path)} -o {output}"


def check_readable(path: Path) -> None:
    """Raise EvalFileError for a suite that is a program."""
    if path.suffix in _UNREADABLE:
        what = _UNREADABLE[path.suffix]
        advice = convert_advice(path, what) if what == _INSPECT else None
        message = f"{what}, which is not an eval file" if advice else what
        raise EvalFileError(shown(path), (Problem(shown(path), message, allowed=advice),))


class AgentvImport(Struct):
    """How the cases of one eval file are translated, and what became of its keys so far.

    `env` fills references to variables; None leaves them as they are.
    """

    generation: Generation
    folders: tuple[Path, ...]
    is_known_type: Callable[[str], bool]
    env: Mapping[str, str] | None = field(default_factory=dict)
    defaults: SuiteDefaults = field(default_factory=SuiteDefaults)
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
        lost = "" if not count else f", {count} {'key has' if count == 1 else 'keys have'} no meaning here"
        return f"{self.kind}{lost}"

    def suite(self, source: Reader) -> "ImportedReader":
        """Translate the top level of the file, and the cases in it."""
        made = self._translated(source, lambda translator: translator.suite(), of_suite=True)
        self.defaults = without_places(self.defaults)
        return made

    def cases(self, source: Reader) -> "ImportedReader":
        """Translate another file of cases, or one line of JSON."""
        value = source.document.value
        return self._translated(source, lambda translator: translator.cases(value))

    def _translated(
        self, source: Reader, translate: Callable[[FileTranslator], Document], *, of_suite: bool = False
    ) -> "ImportedReader":
        given = source = _without_key_problems(source)
        if of_suite and is_skills_file(source.document.value):
            source = Reader(with_agentv_keys(source.document), source.problems)
        if self.generation == Generation.FOURTH and holds_references(source.document.value):
            source = source if self.env is None else with_environment(source, self.env)
        first = list(source.problems)
        translator = FileTranslator(
            source, self.generation, folders=self.folders, is_known_type=self.is_known_type, defaults=self.defaults
        )
        document = translate(translator)
        self.without_effect += translator.report.without_effect
        self.ignored += translator.report.ignored
        self.files += [path for path in translator.report.files if path not in self.files]
        if of_suite:
            self.defaults, self.about = translator.defaults, translator.about
        return ImportedReader(document, first, source, given.document)


class ImportedReader(Reader):
    """A reader of a translated document whose problems have the paths of the file."""

    def __init__(self, document: Document, problems: Sequence[Problem], source: Reader, written: Document) -> None:
        super().__init__(document, problems)
        self._source = source
        self._written = written

    def all_problems(self) -> list[Problem]:
        """Return the problems of the translation, then those of reading the result."""
        of_translation = self._source.problems
        if self._source.document is not self._written:
            of_translation = with_source_paths(of_translation, self._written)
        return [*of_translation, *with_source_paths(self.problems, self._written)]


def problems_of(reader: Reader) -> list[Problem]:
    """Return the problems of a reader, including those of its translation."""
    return reader.all_problems() if isinstance(reader, ImportedReader) else reader.problems


def _without_key_problems(source: Reader) -> Reader:
    """Return a reader without the problems of keys that are numbers, which the scores of AgentV's rubrics have."""
    kept = [each for each in source.problems if not (each.json_path.endswith(".score_ranges") and _is_about_key(each))]
    return source if len(kept) == len(source.problems) else Reader(source.document, kept)


def _is_about_key(problem: Problem) -> bool:
    return problem.message.startswith("the key ") and problem.message.endswith("must be a string")


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
    is_named = (
        isinstance(value, Mapping) and "name" in value
    )  # the top level has none of our keys, so the lines are cases of AgentV
    of_lines = find_generation(list(lines)) if is_named else generation_of_lines(lines)
    generation = max(find_generation(value), of_lines)
    if isinstance(value, Mapping) and "dialect" in value:
        generation = find_generation(value)
    folders = [folder for folder in (base, *base.parents) if folder == base or folder.is_relative_to(root)]
    return AgentvImport(generation, tuple(folders), is_known_type, env, is_skills=is_skills_file(value))


def newer_version_problem(value: JsonValue, path: Path, reader: Reader) -> Problem | None:
    """Return the problem of a file of AgentV 5; None for any other."""
    key = fifth_key(value)
    if key is None:
        return None
    place = reader.document.mark((key,), on_key=True)
    if isinstance(value, Mapping) and "providers" in value and not is_agentv_suite(value):
        advice = convert_advice(path)
        return Problem(
            shown(path), _PROMPTFOO, line=place.line, column=place.column, json_path=f"$.{key}", allowed=advice
        )
    advice = f"`{key}` is a key of AgentV 5; if this is a file of agentv, write `dialect: agentv` at the top"
    return Problem(shown(path), FIFTH, line=place.line, column=place.column, json_path=f"$.{key}", allowed=advice)
