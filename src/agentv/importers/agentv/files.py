"""The import of one eval file of AgentV 1.5 to 4.42, or of Agent Skills, with the files of its cases."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct, field

from agentv.importers.agentv.generations import Generation, differs_from_ours
from agentv.loading.files.documents import Document
from agentv.loading.models.reader import Reader
from agentv.loading.models.references import holds_reference
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.problems import Problem

if TYPE_CHECKING:
    from agentv.importers.agentv.imported_reader import ImportedReader
    from agentv.importers.agentv.suites import FileTranslator, SuiteDefaults


def is_skills_file(value: JsonValue) -> bool:
    """Return True for the content of an `evals.json`."""
    return isinstance(value, Mapping) and isinstance(value.get("evals"), list | tuple)


class AgentvImport(Struct):
    """The translation of one eval file and its files of cases."""

    generation: Generation
    folders: tuple[Path, ...]
    is_known_type: Callable[[str], bool]
    env: Mapping[str, str] | None = field(default_factory=dict)
    """Fills references to variables; None leaves them as they are."""
    defaults: "SuiteDefaults | None" = None
    without_effect: int = 0
    """The number of keys so far that have no effect here, each with a warning."""
    ignored: int = 0
    """The number of keys so far that have no effect here and are left out without a warning."""
    is_skills: bool = False
    files: list[Path] = field(default_factory=list)
    """The files whose content was put into others, such as templates of evaluators."""
    about: JsonObject = field(default_factory=dict)

    @property
    def is_foreign(self) -> bool:
        """True if the same keys mean something else in this file than in ours."""
        return self.generation.is_foreign

    def applies_to(self, value: JsonValue) -> bool:
        """Return True if the content of a file must be translated."""
        return self.is_foreign or (self.generation == Generation.FIRST and differs_from_ours(value))

    @property
    def kind(self) -> str:
        """The kind of the file, for messages."""
        return "Agent Skills evals" if self.is_skills else f"{self.generation.title} eval file"

    @property
    def sentence(self) -> str:
        """The kind of the file, and the number of its keys without meaning here; "" for a file in our own keys."""
        if not self.is_foreign:
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
        from agentv.importers.agentv.case_texts import with_environment  # noqa: PLC0415
        from agentv.importers.agentv.imported_reader import ImportedReader  # noqa: PLC0415
        from agentv.importers.agentv.suites import FileTranslator, with_agentv_keys, without_positions  # noqa: PLC0415

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


def _without_key_problems(source: Reader) -> Reader:
    """Return a reader without the problems about number keys in `score_ranges`, where AgentV allows them."""
    others = [each for each in source.problems if not _is_about_score_key(each)]
    return source if len(others) == len(source.problems) else Reader(source.document, others)


def _is_about_score_key(problem: Problem) -> bool:
    is_about_key = problem.message.startswith("the key ") and problem.message.endswith("must be a string")
    return is_about_key and problem.json_path.endswith(".score_ranges")
