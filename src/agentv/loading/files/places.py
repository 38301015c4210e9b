"""Search for the repository root, `.agentv`, targets and eval files, and for files that only look like eval files."""

import os
import re
from collections.abc import Collection, Iterator, Sequence
from itertools import takewhile
from pathlib import Path

from msgspec import Struct

from agentv.loading.files.kinds import (
    SKILLS_FILE,
    YAML_SUFFIXES,
    has_cases,
    kind_of_file,
    record_noun,
    start_of,
    top_level_keys,
)
from agentv.types.errors import ConfigError, NothingFoundError, nearest

TARGETS_FILES = ("targets.yaml", "targets.yml", ".agentv/targets.yaml", ".agentv/targets.yml")
HOME_FOLDER = ".agentv"


def upward(folder: Path, last: Path | None = None) -> Iterator[Path]:
    """Yield a folder and its parents; stop after `last` when it is one of them."""
    for place in (folder, *folder.parents):
        yield place
        if place == last:
            return


def upward_in_project(folder: Path, repository_root: Path) -> Iterator[Path]:
    """Yield a folder and its parents up to the repository root.

    Without a repository, the search ends before the first folder that belongs to another user: a file there may name
    plug-ins, and the code of other users must not run.
    """
    folder, root = folder.resolve(), repository_root.resolve()
    if (root / ".git").exists():
        return upward(folder, root)
    existing = next(place for place in upward(folder) if place.exists())
    owner = existing.stat().st_uid
    return takewhile(lambda place: place.stat().st_uid == owner, upward(existing))


def find_repository_root(path: Path) -> Path:
    """Return the nearest folder upward that has `.git`; if none has, `path` itself, or its folder if it is a file."""
    folder = path.resolve()
    if not folder.is_dir():
        folder = folder.parent
    return next((place for place in upward(folder) if (place / ".git").exists()), folder)


def find_home(cwd: Path) -> Path:
    """Return the `.agentv` folder that runs are stored in (docs/reference/run-folder.md); it may not exist yet.

    The search ends at the repository root, so that `~/.agentv` does not collect the runs of all projects.
    """
    cwd = cwd.resolve()
    root = find_repository_root(cwd)
    for place in upward_in_project(cwd, root):
        if (place / HOME_FOLDER).is_dir():
            return place / HOME_FOLDER
    return root / HOME_FOLDER


def find_targets_file(suite_dir: Path, repository_root: Path, cwd: Path, override: Path | None) -> Path | None:
    """Return the first targets file from the suite's folder up to the repository root, then in `cwd`; else None.

    Without a repository, the search ends before the first folder of another user (see `upward_in_project`).
    `override` is a targets file, or a folder that contains one. Raises ConfigError if `override` is neither.
    """
    if override is not None:
        if override.is_file():
            return override
        found = _targets_in(override)
        if found is None:
            names = ", ".join(TARGETS_FILES)
            raise ConfigError(
                f"no targets file at {override}; it must be a targets file, or a folder with one of {names}"
            )
        return found
    places = _targets_places(suite_dir, repository_root, cwd)
    return next((found for found in map(_targets_in, places) if found is not None), None)


def targets_searched(suite_dir: Path, repository_root: Path, cwd: Path) -> str:
    """Return the places searched for a targets file, for the message that there is none."""
    *places, last = _targets_places(suite_dir, repository_root, cwd)
    folders = str(places[0]) if len(places) == 1 else f"{places[0]} and the folders above it up to {places[-1]}"
    in_cwd = "" if last.resolve() in places else f", and in {last}"
    return f"looked for {', '.join(TARGETS_FILES)} in {folders}{in_cwd}"


def _targets_places(suite_dir: Path, repository_root: Path, cwd: Path) -> tuple[Path, ...]:
    return (*upward_in_project(suite_dir, repository_root), cwd)


def _targets_in(folder: Path) -> Path | None:
    return next((folder / name for name in TARGETS_FILES if (folder / name).is_file()), None)


def find_eval_files(paths: Sequence[str | Path], *, cwd: Path) -> tuple[Path, ...]:
    """Return the eval files at some paths, each once, in the order given; without paths, those of the folder `evals`.

    A folder stands for all eval files in it, at any depth. Raises ConfigError for a path that does not exist or holds
    results, labels or a baseline, and NothingFoundError if there is no folder `evals`.
    """
    found: dict[Path, Path] = {}  # by real path, so that several links to a file count once
    for path in paths or ("evals",):
        place = cwd / path
        if place.is_dir():
            for file in filter(_is_eval_file, files_below(place)):
                found.setdefault(file.resolve(), file)
        elif place.exists():
            if place.suffix == ".jsonl" and (noun := record_noun(place)) is not None:
                raise ConfigError(f"{path} holds {noun}, not cases; it is not an eval file")
            found.setdefault(place.resolve(), place)
        elif paths:
            raise ConfigError(f"{path}: there is no such file or folder")
        else:
            raise NothingFoundError(f"no path is given, and there is no folder 'evals' in {cwd}")
    return tuple(found.values())


def is_file_path(path: Path) -> bool:
    """Return True if a path leads to a file; False also for a string that is not a valid path."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def is_folder_path(path: Path) -> bool:
    """Return True if a path leads to a folder; False also for a string that is not a valid path."""
    try:
        return path.is_dir()
    except (OSError, ValueError):
        return False


def side_file(dataset: Path) -> Path | None:
    """Return the side file of a JSONL dataset; None if there is none.

    The side file is the YAML file `NAME.yaml` beside `NAME.jsonl`. It holds the top-level keys of the suite. A
    YAML file that has cases is not a side file but an eval file, even if its cases are only a reference to the dataset.
    """
    candidates = (dataset.with_suffix(suffix) for suffix in YAML_SUFFIXES)
    return next((path for path in candidates if path.is_file() and not has_cases(path)), None)


def files_below(folder: Path, visited: set[Path] | None = None) -> Iterator[Path]:
    """Yield the files of a folder at any depth, without those of dot-folders and `node_modules`.

    Folders linked repeatedly are visited once.
    """
    visited = set() if visited is None else visited
    if folder.resolve() in visited:
        return
    visited.add(folder.resolve())
    for path in sorted(folder.iterdir()):
        if not path.is_dir():
            yield path
        elif not path.name.startswith(".") and path.name != "node_modules":
            yield from files_below(path, visited)


def _is_eval_file(path: Path) -> bool:
    if path.suffix == ".jsonl":
        return side_file(path) is not None
    if path.name == SKILLS_FILE:
        return "evals" in top_level_keys(path)
    return path.suffix in YAML_SUFFIXES and kind_of_file(path) == "eval" and not _is_side_file(path)


def _is_side_file(path: Path) -> bool:
    return path.with_suffix(".jsonl").is_file() and not has_cases(path)


MAX_SKIPPED_LISTED = 5
_OTHER_CASE_KEYS = ("evalCases", "test_cases", "testCases")
"""Keys under which other tools, and older files, list cases."""
_JSON_CASES = re.compile(r'"(?:evalcases|cases|evals|tests|eval_cases|evalCases)"\s*:\s*[\[{]')
_CASE_FIELD = re.compile(
    r"(?:^|[\s{,-])['\"]?(?:input_messages|inputMessages|expected_outcome|expectedOutcome)['\"]?\s*:"
)
"""A key that only cases have."""
_WORD = re.compile(r"[^\s'\",{}]+")
_DATA_SUFFIX = re.compile(r"\.(?:jsonl?|ya?ml)")


class SkippedFile(Struct, frozen=True):
    """A file that is not read, with the reason and what to do."""

    path: Path
    reason: str


def find_skipped_files(paths: Sequence[str | Path], *, cwd: Path, found: Collection[Path]) -> tuple[SkippedFile, ...]:
    """Return the files below the given folders that look like eval files, but are not among the eval files `found`.

    Results, labels and baselines are not listed, nor files of cases that are named in a YAML file of these folders.
    """
    known = set(map(os.path.realpath, found))
    folders = [place for path in paths or ("evals",) if (place := cwd / path).is_dir()]
    files = [path for folder in folders for path in files_below(folder) if os.path.realpath(path) not in known]
    skipped = {os.path.realpath(path): each for path in files if (each := _skipped_file(path, cwd)) is not None}
    if not skipped:
        return ()
    named = _named_data_files([*files, *found])
    return tuple(each for each in skipped.values() if not any(each.path.match(pattern) for pattern in named))


def _skipped_file(path: Path, cwd: Path) -> SkippedFile | None:
    reason = _skip_reason(path, cwd)
    return None if reason is None else SkippedFile(path, reason)


def _skip_reason(path: Path, cwd: Path) -> str | None:
    suffix = path.suffix.lower()
    if suffix == ".jsonl" and record_noun(path) is None:
        side = relative_to_cwd(path.with_suffix(".yaml"), cwd)
        reason, remedy = f"JSON Lines without {side} beside it", "add that file"
        if path.suffix != suffix:
            reason, remedy = "the name does not end in .jsonl", "rename it"
        return f"{reason}; name the file as an argument, or {remedy}"
    if suffix in YAML_SUFFIXES:
        return _yaml_skip_reason(path)
    if suffix == ".json" and _JSON_CASES.search(start_of(path)) is not None:
        return "JSON; name the file as an argument, or convert it to YAML"
    return None


def _yaml_skip_reason(path: Path) -> str | None:
    if path.suffix not in YAML_SUFFIXES:
        return "the name does not end in .yaml or .yml" if has_cases(path) else None
    if kind_of_file(path) != "other":
        return None
    keys = top_level_keys(path)
    key = next((key for key in keys if key in _OTHER_CASE_KEYS), None)
    if key is None:
        if not _CASE_FIELD.search(start_of(path)):
            return None
        key = next((key for key in keys if nearest(key, ("evalcases",))), None)
    return f"its cases are under {key!r}; they must be under 'evalcases'" if key else "it has cases, but no 'evalcases'"


def _named_data_files(files: Sequence[Path]) -> set[str]:
    """Return the names and patterns of JSON, JSON Lines and YAML files that occur in YAML files."""
    texts = (start_of(path) for path in files if path.suffix in YAML_SUFFIXES)
    words = (word for text in texts if _DATA_SUFFIX.search(text) for word in _WORD.findall(text))
    return {name.lstrip("./") for word in words if (name := _data_file_name(word))}


def _data_file_name(word: str) -> str:
    """Return a word up to and including the last suffix of a data file; "" if it names no data file."""
    ends = [found.end() for found in _DATA_SUFFIX.finditer(word) if found.start()]
    return word[: ends[-1]] if ends else ""


def relative_to_cwd(path: Path, cwd: Path) -> str:
    """Return a path as text, relative to `cwd` if it lies there."""
    return str(path.relative_to(cwd)) if path.is_relative_to(cwd) else str(path)


def skipped_lines(skipped: Sequence[SkippedFile], cwd: Path) -> Iterator[str]:
    """Yield a line for each of the first skipped files, and one for the rest."""
    for each in skipped[:MAX_SKIPPED_LISTED]:
        yield f"skipped {relative_to_cwd(each.path, cwd)}: {each.reason}"
    if len(skipped) > MAX_SKIPPED_LISTED:
        more = len(skipped) - MAX_SKIPPED_LISTED
        yield more_skipped(more)


def more_skipped(count: int) -> str:
    """Return the number of skipped files that are not listed, in words."""
    return f"{count} more files are skipped" if count > 1 else "1 more file is skipped"
