"""Search for the repository root, `.agentv`, targets and eval files, and for files that only look like eval files."""

import os
import re
from collections.abc import Collection, Iterator, Sequence
from itertools import takewhile
from pathlib import Path

from msgspec import Struct

from agentv.loading.files.kinds import (
    CASE_KEYS,
    EVALUATION_KEYS,
    PROMPTFOO_NAME,
    SKILLS_FILE,
    YAML_SUFFIXES,
    Outline,
    has_cases,
    is_settings_file,
    kind_of_file,
    kind_of_outline,
    outline_of,
    record_noun,
    start_of,
)
from agentv.loading.files.text import MAX_BYTES, TOO_LARGE
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

    A folder stands for all eval files in it, at any depth. Raises ConfigError for a path that is empty, does not exist
    or holds results, labels or a baseline, and NothingFoundError if there is no folder `evals`.
    """
    if "" in paths:
        raise ConfigError(
            "a path is empty, as an unset variable of a shell is; "
            "name a file or a folder ('.' is this folder), or no path"
        )
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
        return "evals" in outline_of(start_of(path)).shapes
    return path.suffix in YAML_SUFFIXES and kind_of_file(path) == "eval" and not _is_side_file(path)


def _is_side_file(path: Path) -> bool:
    return path.with_suffix(".jsonl").is_file() and not has_cases(path)


MAX_SKIPPED_LISTED = 5
"""The number of JSON Lines files without a side file that are listed; the others are counted."""
_OTHER_CASE_KEYS = ("evalCases", "test_cases", "testCases")
"""Keys under which other tools, and older files, list cases."""
_SETTING_KEYS = ("execution", "confirm_reruns", "pass_score", "budget_usd", "evaluator_timeout_seconds", "targets")
"""Keys at the top of eval files that other files hardly have."""
_OTHER_KEYS = frozenset({*EVALUATION_KEYS, "evaluator", "targets", "target", "tags", "gates"})
"""Keys that are spelled like those of the cases, but are others."""
_PROGRAM_SUFFIXES = (".ts", ".mts", ".cts", ".js", ".mjs", ".cjs")
_JSON_CASES = re.compile(r'"(?:evalcases|cases|evals|tests|eval_cases|evalCases)"\s*:\s*[\[{"]')
_CASE_FIELD = re.compile(
    r"(?:^|[\s{,-])['\"]?(?:input_messages|inputMessages|expected_outcome|expectedOutcome|expected_output)['\"]?\s*:"
)
"""A key that only cases have."""
_SHORT_CASE_FIELDS = tuple(re.compile(rf"(?:^|[\s{{,-])['\"]?{key}['\"]?\s*:") for key in ("input", "expected"))
"""Keys that only cases have together."""
_COMMENT = re.compile(r"(?:^|\s)#.*$", re.MULTILINE)
_WORD = re.compile(r"[^\s'\",{}]+")
_DATA_SUFFIX = re.compile(r"\.(?:jsonl?|ya?ml)")


class SkippedFile(Struct, frozen=True):
    """A file that is not read."""

    path: Path
    reason: str
    """Why the file is not read, and what to do."""
    is_data: bool = False
    """True for JSON Lines, which may be anything."""
    is_cases_file: bool = False
    """True if another file may name it."""


def find_skipped_files(paths: Sequence[str | Path], *, cwd: Path, found: Collection[Path]) -> tuple[SkippedFile, ...]:
    """Return the files below the given folders that look like eval files, but are not among the eval files `found`.

    Results, labels and baselines are not listed, nor files of cases that are named in a YAML file of these folders. A
    folder without any eval file is listed itself if other paths have some. JSON Lines are last.
    """
    known = set(map(os.path.realpath, found))
    folders = [place for path in paths or ("evals",) if (place := cwd / path).is_dir()]
    below = {folder: tuple(files_below(folder)) for folder in folders}
    files = [path for listed in below.values() for path in listed]
    others = {os.path.realpath(path): path for path in files if os.path.realpath(path) not in known}
    skipped = [each for path in others.values() if (each := _skipped_file(path, cwd)) is not None]
    if any(each.is_cases_file for each in skipped):
        named = _named_data_files([*files, *found])
        skipped = [each for each in skipped if not (each.is_cases_file and any(map(each.path.match, named)))]
    empty = [
        SkippedFile(folder, "it has no eval files")
        for folder, listed in below.items()
        if found and known.isdisjoint(map(os.path.realpath, listed))
    ]
    return (*empty, *sorted(skipped, key=lambda each: each.is_data))


def _skipped_file(path: Path, cwd: Path) -> SkippedFile | None:
    suffix = path.suffix.lower()
    if suffix == ".jsonl" and record_noun(path) is None:
        side = relative_to_cwd(path.with_suffix(".yaml"), cwd)
        reason, remedy = f"JSON Lines without {side} beside it", "add that file"
        if path.suffix != suffix:
            reason, remedy = "the name does not end in .jsonl", "rename it"
        reason = f"{reason}; name the file as an argument, or {remedy}"
        return SkippedFile(path, reason, is_data=True, is_cases_file=True)
    if suffix in YAML_SUFFIXES:
        return _skipped_yaml(path)
    if path.name.startswith(PROMPTFOO_NAME) and suffix in (".json", *_PROGRAM_SUFFIXES):
        advice = f"convert it with: agentv convert {relative_to_cwd(path, cwd)} -o suite.yaml"
        return SkippedFile(path, f"a promptfoo configuration; {advice}")
    if suffix in _PROGRAM_SUFFIXES and path.stem.endswith(".eval"):
        return SkippedFile(path, "suites that are programs are not read; write the cases as YAML")
    if suffix == ".json" and _JSON_CASES.search(start_of(path)) is not None:
        return SkippedFile(path, "JSON; name the file as an argument, or convert it to YAML", is_cases_file=True)
    return None


def _skipped_yaml(path: Path) -> SkippedFile | None:
    """Return why a YAML file that is not read may be an eval file; None if it is something else."""
    if (fault := _read_fault(path)) is not None:
        return SkippedFile(path, fault)
    text = start_of(path)
    outline = outline_of(text)
    if path.suffix not in YAML_SUFFIXES:
        return SkippedFile(path, "the name does not end in .yaml or .yml") if outline.has_cases else None
    if is_settings_file(path) or _is_side_file(path):
        return None
    if (reason := _reason_by_keys(path, outline)) is not None:
        return SkippedFile(path, reason)
    if outline.error is not None:
        return SkippedFile(path, f"it is not valid YAML: {outline.error}", is_cases_file=True)
    kind = kind_of_outline(path.name, outline)
    has_case_fields = _CASE_FIELD.search(text) or all(field.search(text) for field in _SHORT_CASE_FIELDS)
    if kind != "targets" and has_case_fields:
        return SkippedFile(path, "it has cases, but no 'evalcases'", is_cases_file=True)
    return None


def _reason_by_keys(path: Path, outline: Outline) -> str | None:
    """Return the reason by a key that is nearly that of the cases, by a setting of eval files, or by the name."""
    shapes = outline.shapes
    key = next((key for key in shapes if _is_nearly_cases(key, is_list=shapes[key] == "objects")), None)
    if key is not None:
        return f"its cases are under {key!r}; they must be under 'evalcases'"
    if kind_of_outline(path.name, outline) == "targets":
        return None
    key = next((key for key in _SETTING_KEYS if key in shapes), None)
    if key is not None:
        return f"it has {key!r}, as eval files do, but no 'evalcases'"
    is_named = path.stem == "eval" or path.stem.endswith(".eval")
    return "it is named as an eval file, but has no 'evalcases'" if is_named else None


def _is_nearly_cases(key: str, *, is_list: bool) -> bool:
    """Return True for another spelling of a key of the cases; one of a short key must have a list of objects."""
    near = None if key in _OTHER_KEYS else nearest(key, CASE_KEYS)
    return key in _OTHER_CASE_KEYS or (near is not None and (is_list or near.startswith("eval")))


def _read_fault(path: Path) -> str | None:
    """Return the reason why a file cannot be read; None if it can."""
    if path.exists() and not path.is_file():
        return "it is not a regular file"
    try:
        with path.open("rb") as file:
            return TOO_LARGE if os.fstat(file.fileno()).st_size > MAX_BYTES else None
    except OSError as error:
        return f"it cannot be read: {error.strerror}"


def _named_data_files(files: Sequence[Path]) -> set[str]:
    """Return the names and patterns of JSON, JSON Lines and YAML files that occur in YAML files, outside comments."""
    texts = (_COMMENT.sub("", start_of(path)) for path in files if path.suffix in YAML_SUFFIXES)
    words = (word for text in texts if _DATA_SUFFIX.search(text) for word in _WORD.findall(text))
    return {name.lstrip("./") for word in words if (name := _data_file_name(word))}


def _data_file_name(word: str) -> str:
    """Return a word up to and including the last suffix of a data file; "" if it names no data file."""
    ends = [found.end() for found in _DATA_SUFFIX.finditer(word) if found.start()]
    return word[: ends[-1]] if ends else ""


def relative_to_cwd(path: Path, cwd: Path) -> str:
    """Return a path as text, relative to `cwd` if it lies there."""
    return str(path.relative_to(cwd)) if path.is_relative_to(cwd) else str(path)


def listed_and_rest(skipped: Sequence[SkippedFile]) -> tuple[Sequence[SkippedFile], str]:
    """Return the skipped files to list, and the number of the others in words, "" if there are none.

    All are listed, except that of JSON Lines only the first are.
    """
    data = [each for each in skipped if each.is_data]
    more = len(data) - MAX_SKIPPED_LISTED
    if more <= 0:
        return skipped, ""
    rest = f"{more} more files are skipped" if more > 1 else "1 more file is skipped"
    return skipped[:-more], rest


def skipped_lines(paths: Sequence[str | Path], *, cwd: Path, found: Collection[Path]) -> tuple[str, ...]:
    """Return a line for each skipped file (`find_skipped_files`) that is listed, and one for the rest."""
    listed, rest = listed_and_rest(find_skipped_files(paths, cwd=cwd, found=found))
    lines = (f"skipped {relative_to_cwd(each.path, cwd)}: {each.reason}" for each in listed)
    return (*lines, rest) if rest else tuple(lines)
