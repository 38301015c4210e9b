"""The check of a stored run before its results are shown: whether its files are as it recorded them."""

from collections.abc import Collection, Mapping

from msgspec import Struct, field

from agentv.storage.files.segments import SEGMENTS_FILE
from agentv.storage.run.checksums import changed_files, load_checksums
from agentv.storage.run.stored import StoredRun
from agentv.types.errors import StorageError

RESULTS_ONLY = ("results.jsonl",)
"""The files to check for a list of results or a trend, which show nothing of the others."""

_NO_CHECKSUMS = "checksums of its files: not recorded; changes to them cannot be detected"


class StoredCheck(Struct, frozen=True):
    """The comparison of a stored run with its checksums: a message for each file that is not as recorded, by its name.

    An older agentv recorded no checksums: then nothing is compared.
    """

    changed: Mapping[str, str] = field(default_factory=dict)
    has_checksums: bool = True

    @property
    def edits(self) -> tuple[str, ...]:
        """The messages."""
        return tuple(self.changed.values())

    @property
    def problem(self) -> str | None:
        """Why the results may not be those that were written; None if there is no sign of it."""
        return "; ".join(self.edits) or None

    @property
    def notes(self) -> tuple[str, ...]:
        """The notes of a report on the run's files."""
        return self.edits if self.has_checksums else (_NO_CHECKSUMS,)

    def explained(self, error: StorageError) -> StorageError:
        """Return the error of a row that cannot be read, with the problem that may be its cause."""
        return error if self.problem is None else StorageError(f"{error}; {self.problem}")


def check_stored_run(run: StoredRun, files: Collection[str] | None = None) -> StoredCheck:
    """Compare a stored run's files with the checksums that its events record. Each file is read once.

    `files` limits this to some files of lines; run.json is compared always. A file that cannot be read counts as
    changed, and is no error.
    """
    try:
        refuse_lost_list(run, files or ())
        recorded = load_checksums(run)
    except OSError as error:
        return StoredCheck({"results.jsonl": f"its files cannot be compared with their checksums: {error}"})
    if not recorded.are_recorded:
        return StoredCheck(has_checksums=False)
    return StoredCheck(changed_files(run, recorded, files))


def refuse_lost_list(run: StoredRun, pulled: Collection[str] = ()) -> None:
    """Raise StorageError if a run has lost its list of segments.

    A run from the team database has files of rows instead, perhaps only those in `pulled`.
    """
    options, path = run.run.plan.get("options"), run.folder / SEGMENTS_FILE
    has_segments = isinstance(options, Mapping) and options.get("segments") is not None
    has_rows = any((run.folder / name).exists() for name in ("cases.jsonl", *pulled))
    if has_segments and not has_rows and not path.exists():
        raise StorageError(f"{path}, the list of the segments, is missing; restore it from a copy")
