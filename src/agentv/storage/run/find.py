"""Find a stored run by id, start of an id, name, path, `latest`, or `latest~2`, and suites of runs by name."""

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC
from pathlib import Path

from msgspec import Struct, field

from agentv.storage.run.stored import StoredRun, open_run
from agentv.types.errors import ConfigError, StorageError, UnknownNameError, nearest
from agentv.types.records.run import RunRecord

_LATEST = re.compile(r"latest(?:~(\d+))?")
_TIMED = re.compile(r"\d{8}T\d{6}", re.ASCII)
"""The beginning of an id that `new_run_id` makes."""
_TAG_LIKE = re.compile(r"[A-Za-z][\w.-]*")
_SHOWN = 8


def runs_folder(home: Path) -> Path:
    """Return the folder of runs inside `.agentv`."""
    return home / "runs"


def calibrations_folder(home: Path) -> Path:
    """Return the folder of the calibrations of judges inside `.agentv`."""
    return home / "calibrations"


def list_run_folders(home: Path) -> tuple[Path, ...]:
    """Return the folders of all runs, in the order in which the runs were started."""
    try:
        entries = list(runs_folder(home).iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return ()
    return tuple(sorted(filter(_holds_run, entries), key=_started))


def _started(folder: Path) -> tuple[str, bool, str]:
    """Return what sorts a folder by the start of its run, a copy of a run before the run itself.

    Only the run of a folder that was renamed is read, and is the oldest if that fails. The name of any other folder is
    the run's id, which begins with the time.
    """
    name = folder.name
    if _TIMED.match(name):
        return name, True, name
    run = readable_run(folder)
    if run is None:
        return "", True, name
    at = run.run.created_at.astimezone(UTC)
    started = f"{at:%Y%m%dT%H%M%S}.{at.microsecond // 1000:03}-{run.run_id}"
    return run.run_id if _TIMED.match(run.run_id) else started, run.run_id == name, name


def _holds_run(folder: Path) -> bool:
    if folder.name.startswith("."):  # an unfinished `agentv store pull`
        return False
    try:
        return (folder / "run.json").is_file()
    except OSError:
        # A folder that may not be read is reported as an unreadable run.
        return True


def readable_run(folder: Path) -> StoredRun | None:
    """Return the run in a folder, None if its run.json cannot be read."""
    try:
        return StoredRun(folder)
    except OSError:
        return None


LOG_SUFFIX = ".eval"
"""The suffix of logs of inspect, which `agentv convert` converts to runs."""


class UnknownRunError(ConfigError):
    """No run has an id, a name or a path like `reference`."""

    def __init__(self, reference: str, message: str) -> None:
        self.reference = reference
        super().__init__(message)


def find_run(home: Path, reference: str, *, without: str | None = None) -> Path:
    """Return the folder of the run that `reference` names; `without` is the id of a run to skip.

    `reference` is `latest`, `latest~1` (the run before it), a path, a folder, an id, a name, or the start of a folder
    or id, or of its random suffix. They are tried in this order until any run matches. Raises ConfigError, listing the
    runs, when no run or several runs match.
    """
    folders = [folder for folder in list_run_folders(home) if folder.name != without]
    latest = _LATEST.fullmatch(reference)
    if latest:
        back = int(latest[1] or 0)
        if back < len(folders):
            return folders[-1 - back]
        raise ConfigError(f"there is no run {reference!r}; {_listed(folders)}")
    path = Path(reference)
    if (os.sep in reference or reference in (".", "..")) and (path / "run.json").is_file():
        return path
    matching = _matching(folders, reference)
    if len(matching) == 1:
        return matching[0]
    if matching:
        is_name, is_id = _name_of(matching[0]) == reference, _id_of(matching[0]) == reference
        verb = "is the id of" if is_id else "is the name of" if is_name else "matches"
        advice = "give a folder" if is_id else "give an id" if is_name else "give more characters of an id"
        raise ConfigError(f"{reference!r} {verb} {len(matching)} runs; {advice}: {_names(matching)}")
    if path.suffix == LOG_SUFFIX and path.is_file():
        raise ConfigError(
            f"{reference} is a log of inspect; convert it to a run with: agentv convert {reference} -o .agentv/runs"
        )
    near = nearest(reference, filter(None, map(_name_of, folders)))
    hint = f". Did you mean {near!r}?" if near else ""
    raise UnknownRunError(reference, f"there is no run {reference!r}; {_listed(folders)}{hint}")


def find_unfinished(home: Path) -> Path:
    """Return the folder of the newest unfinished run; runs that cannot be read are skipped.

    Raises ConfigError if there is none.
    """
    folders = list_run_folders(home)
    for folder in reversed(folders):
        try:
            if open_run(folder).state() != "finished":
                return folder
        except StorageError:
            continue
    if not folders:
        raise ConfigError("no run is stored yet; start one with `agentv run`")
    raise ConfigError("every run is finished; to run cases that were edited or added since, use `agentv resume latest`")


def find_tagged(home: Path, tag: str) -> Path | None:
    """Return the folder of the newest run with a tag, or None."""
    runs = filter(None, map(readable_run, reversed(list_run_folders(home))))
    return next((run.folder for run in runs if tag in run.run.tags), None)


def with_tag_advice(error: ConfigError) -> ConfigError:
    """Return the error of `find_run` where a tag names a run, too; for an unknown name, with how to add that tag."""
    if not isinstance(error, UnknownRunError) or not _TAG_LIKE.fullmatch(error.reference):
        return error
    end = "" if str(error).endswith("?") else "."
    return ConfigError(f"{error}{end} To give a run this tag: agentv runs tag RUN {error.reference}")


def _matching(folders: Sequence[Path], reference: str) -> list[Path]:
    exact = [folder for folder in folders if folder.name == reference]
    if exact or not reference:
        return exact
    # A folder that was renamed is found by both names.
    names = {folder: (folder.name, _id_of(folder)) for folder in folders}
    of_id = [folder for folder, (_, run_id) in names.items() if run_id == reference]
    named = of_id or [folder for folder in folders if _name_of(folder) == reference]
    return named or [
        folder
        for folder, both in names.items()
        if any(each.startswith(reference) or each.rpartition("-")[2].startswith(reference) for each in both)
    ]


def _id_of(folder: Path) -> str:
    run = readable_run(folder)
    return folder.name if run is None else run.run_id


def _name_of(folder: Path) -> str | None:
    run = readable_run(folder)
    return None if run is None else run.run.name


def _listed(folders: Sequence[Path]) -> str:
    return f"known, latest first: {_names(folders, _with_name)}" if folders else "no run is stored yet"


def _with_name(folder: Path) -> str:
    name = _name_of(folder)
    return f"{folder.name} ({name})" if name else folder.name


def _names(folders: Sequence[Path], shown: Callable[[Path], str] = lambda folder: folder.name) -> str:
    latest = [shown(folder) for folder in folders[: -_SHOWN - 1 : -1]]
    more = f" and {len(folders) - _SHOWN} more" if len(folders) > _SHOWN else ""
    return ", ".join(latest) + more


UNREADABLE = "unreadable"


class ListedRun(Struct, frozen=True):
    """One run of a list."""

    folder: Path
    state: str
    """`unreadable` if one of the run's files cannot be read."""
    run: RunRecord | None = None
    """None when run.json cannot be read."""
    counts: Mapping[str, int] = field(default_factory=dict)
    """Results by state; empty when results.jsonl cannot be read."""
    problem: str | None = None
    """The error if one of the run's files cannot be read."""

    @property
    def run_id(self) -> str:
        """The run's id."""
        return self.folder.name if self.run is None else self.run.run_id


def list_runs(home: Path) -> tuple[ListedRun, ...]:
    """Return all runs, oldest first."""
    return tuple(map(read_listed, list_run_folders(home)))


def read_listed(folder: Path) -> ListedRun:
    """Return one run of the list, read from its folder."""
    run = None
    try:
        stored = StoredRun(folder)
        run = stored.run
        return ListedRun(folder, stored.state(), run, stored.counts())
    except OSError as error:
        return ListedRun(folder, UNREADABLE, run, problem=str(error))


def is_suite_named(suite: str, name: str) -> bool:
    """Return True if `name` is the path of a suite, the end of it, its stem, or a longer path with the same end."""
    return name in (suite, Path(suite).stem) or suite.endswith(f"/{name}") or name.endswith(f"/{suite}")


def find_suites(names: Iterable[str], known: Sequence[str]) -> tuple[str, ...]:
    """Return the suites with these names. Raises UnknownNameError for a name that no suite has."""
    for name in names:
        if not any(is_suite_named(suite, name) for suite in known):
            raise UnknownNameError("suite", name, known=known, aliases={Path(suite).stem for suite in known})
    return tuple(suite for suite in known if any(is_suite_named(suite, name) for name in names))
