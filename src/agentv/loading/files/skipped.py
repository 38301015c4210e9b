"""Files of a folder that look like eval files and are not read, so that none is skipped without a line."""

import os
import re
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from agentv.loading.files.kinds import YAML_SUFFIXES, has_cases, kind_of_file, record_noun, start_of, top_level_keys
from agentv.loading.files.places import files_below
from agentv.types.errors import nearest

SHOWN_SKIPPED = 5
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
    """A file that is not read, and the reason with the remedy."""

    path: Path
    reason: str


def find_skipped_files(paths: Sequence[str | Path], *, cwd: Path, found: Collection[Path]) -> tuple[SkippedFile, ...]:
    """Return the files below the given folders that look like eval files, but are not among those `found`.

    Results, labels and baselines are not listed, nor files of cases that a YAML file of the folder names.
    """
    known = set(map(os.path.realpath, found))
    folders = [place for path in paths or ("evals",) if (place := cwd / path).is_dir()]
    files = [path for folder in folders for path in files_below(folder) if os.path.realpath(path) not in known]
    skipped = {os.path.realpath(path): each for path in files if (each := _skipped(path, cwd)) is not None}
    if not skipped:
        return ()
    named = _named_lines([*files, *found])
    return tuple(each for each in skipped.values() if not any(each.path.match(pattern) for pattern in named))


def _skipped(path: Path, cwd: Path) -> SkippedFile | None:
    reason = _reason(path, cwd)
    return None if reason is None else SkippedFile(path, reason)


def _reason(path: Path, cwd: Path) -> str | None:
    suffix = path.suffix.lower()
    if suffix == ".jsonl" and record_noun(path) is None:
        side = shown_path(path.with_suffix(".yaml"), cwd)
        missing = f"JSON Lines without {side} beside it" if path.suffix == suffix else "the name does not end in .jsonl"
        return f"{missing}; name the file as an argument, or add what is missing"
    if suffix in YAML_SUFFIXES:
        return _yaml_reason(path)
    if suffix == ".json" and _JSON_CASES.search(start_of(path)) is not None:
        return "JSON; name the file as an argument, or convert it to YAML"
    return None


def _yaml_reason(path: Path) -> str | None:
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


def _named_lines(files: Sequence[Path]) -> set[str]:
    """Return the names and patterns of JSON, JSON Lines and YAML files in the text of YAML files."""
    texts = (start_of(path) for path in files if path.suffix in YAML_SUFFIXES)
    words = (word for text in texts if _DATA_SUFFIX.search(text) for word in _WORD.findall(text))
    return {name.lstrip("./") for word in words if (name := _data_name(word))}


def _data_name(word: str) -> str:
    """Return a word up to its last suffix of a data file; empty if it has none after its first character."""
    ends = [found.end() for found in _DATA_SUFFIX.finditer(word) if found.start()]
    return word[: ends[-1]] if ends else ""


def shown_path(path: Path, cwd: Path) -> str:
    """Return a path relative to the working folder, if it lies there."""
    return str(path.relative_to(cwd)) if path.is_relative_to(cwd) else str(path)


def skipped_lines(skipped: Sequence[SkippedFile], cwd: Path) -> Iterator[str]:
    """Yield a line for each of the first skipped files, and one for the rest."""
    for each in skipped[:SHOWN_SKIPPED]:
        yield f"skipped {shown_path(each.path, cwd)}: {each.reason}"
    if len(skipped) > SHOWN_SKIPPED:
        more = len(skipped) - SHOWN_SKIPPED
        yield f"{more} more files are skipped" if more > 1 else "1 more file is skipped"
