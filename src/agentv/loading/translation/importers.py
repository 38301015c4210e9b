"""What reading asks about files of other programs and older versions. The room `importers` answers it."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol, cast

from agentv.loading.files.documents import Document
from agentv.loading.models.reader import Reader
from agentv.loading.translation.translation import Translation
from agentv.registry import Specs, load_reference
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.problems import Problem


class SuiteImport(Protocol):
    """The translation of one eval file and its files of cases; of those in our own keys, nothing is translated."""

    @property
    def is_foreign(self) -> bool:
        """True if the same keys mean something else in this eval file than in ours."""

    @property
    def sentence(self) -> str:
        """The kind of the file, and the number of its keys without meaning here; "" for a file in our own keys."""

    @property
    def files(self) -> Sequence[Path]:
        """The files whose content was put into others so far."""

    @property
    def about(self) -> JsonObject:
        """The values that describe the eval file, such as its author."""

    def applies_to(self, value: JsonValue) -> bool:
        """Return True if the content of a file must be translated."""

    def suite(self, source: Reader) -> Reader:
        """Return a reader of the top level in our own keys, with the cases in it."""

    def cases(self, source: Reader) -> Reader:
        """Return a reader of another file of cases, or of one line of JSON, in our own keys."""


class Importers(Protocol):
    """The importers of files that were not written for agentv."""

    def check_readable(self, path: Path) -> None:
        """Raise EvalFileError for a file that is no eval file, by its suffix."""

    def start_suite(self, top: Reader, path: Path, *, env: Mapping[str, str] | None, root: Path) -> SuiteImport:
        """Return the import of the eval file `path`, whose top level `top` reads.

        `env` fills the references `${{ NAME }}` of AgentV's files; with None they stay as written. The files that it
        names must lie in `root`. Raises EvalFileError for a file that must be converted first, or is not supported.
        """

    def program_of(self, value: JsonValue) -> str:
        """Return the program and version that the content of an eval file is written for; "" for ours."""

    def find_other_program(self, path: Path) -> Problem | None:
        """Return the problem of a file of another program that `agentv convert` reads; None for another file."""

    def translate_targets(self, document: Document, env: Mapping[str, str]) -> Translation | None:
        """Return the translation of a targets file; None for a file in our own keys."""


def importers_of(specs: Specs) -> Importers:
    """Return the importers that are registered with the plug-ins; they are imported on first use."""
    return cast(Importers, load_reference(specs.importers)(specs))
