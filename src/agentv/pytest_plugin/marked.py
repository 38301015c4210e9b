"""The cases that the marker `agentv` names."""

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import pytest
from msgspec import Struct
from msgspec.structs import replace

from agentv.engine.planning.inputs import load_inputs
from agentv.engine.planning.planning import make_plan
from agentv.engine.planning.selection import select_cases, unmatched_globs
from agentv.loading.files.places import find_eval_files, find_home, skipped_lines
from agentv.pytest_plugin.rows import SessionOptions, WantedCases, session_options, with_wanted_cases
from agentv.pytest_plugin.state import FIXTURE
from agentv.types.cases import BrokenCase, EvalCase
from agentv.types.errors import AgentvError, ConfigError, EvalFileError


class MarkedCase(Struct, frozen=True):
    """A case of a marked test, and the file, targets and trials of its marker."""

    case: EvalCase
    wanted: WantedCases


class _MarkerArguments(Struct, frozen=True, kw_only=True):
    """The arguments of one marker."""

    path: str
    target: str | Sequence[str] = ()
    case: str | Sequence[str] = ()
    trials: int | None = None


def marked_cases(marks: Iterable[pytest.Mark], definition: pytest.Item) -> list[MarkedCase]:
    """Return the cases of all markers of a test. Raises CollectError for the first marker that cannot be used."""
    options = session_options(definition.config)
    try:
        return [case for mark in marks for case in _cases(_read_marker(mark), definition, options)]
    except AgentvError as error:
        raise pytest.Collector.CollectError(str(error)) from None


def _read_marker(mark: pytest.Mark) -> _MarkerArguments:
    """Return the arguments of a marker. Raises ConfigError for wrong ones."""
    names = ("path", "target", "case", "trials")
    given = dict(zip(names, mark.args, strict=False)) | dict(mark.kwargs)
    given = {name: value for name, value in given.items() if value is not None}
    problem = None
    if len(mark.args) > len(names) or not given.keys() <= set(names) or "path" not in given:
        problem = "expected a path, and optionally target=, case= and trials="
    elif not _is_str_or_path(given["path"]):
        problem = f"path must be a string or a Path, not {given['path']!r}"
    elif "trials" in given and (type(given["trials"]) is not int or given["trials"] < 1):
        problem = f"trials must be a whole number from 1, not {given['trials']!r}"
    else:
        for name in ("target", "case"):
            value = given.get(name, ())
            names_given = value if isinstance(value, list | tuple) else [value]
            if isinstance(value, Path) or not all(map(_is_str_or_path, names_given)):
                problem = f"{name} must be a string or a list of strings, not {value!r}"
    if problem is not None:
        raise ConfigError(f"marker agentv: {problem}")
    return _MarkerArguments(**{**given, "path": str(given["path"])})


def _is_str_or_path(value: object) -> bool:
    return isinstance(value, str | Path)


def _as_tuple(value: str | Sequence[str]) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(value)


def _cases(mark: _MarkerArguments, definition: pytest.Item, options: SessionOptions) -> Iterator[MarkedCase]:
    """Yield the cases of one marker, after all checks that need no call."""
    root, test_folder = Path(options.root), definition.path.parent
    base = next((folder for folder in (root, test_folder) if (folder / mark.path).exists()), None)
    if base is None:
        raise ConfigError(
            f"marker agentv: there is no {mark.path} in {root} or in {test_folder}, the folder of the test"
        )
    files = find_eval_files([mark.path], cwd=base)
    for line in skipped_lines([mark.path], cwd=base, found=files):
        definition.warn(pytest.PytestWarning(f"marker agentv: {line}"))
    run_options = replace(options.run_options(file.parent for file in files), case_globs=_as_tuple(mark.case), gates=())
    inputs = load_inputs(files, run_options, cwd=root, env=os.environ)
    groups: list[tuple[WantedCases, list[EvalCase]]] = []
    loaded = 0
    for file, suite_input in zip(files, inputs.suites, strict=True):
        cases = [_require_readable(case) for case in select_cases(suite_input.suite, run_options)]
        loaded += suite_input.suite.cases.count or len(cases)
        ids = tuple(case.id for case in cases)
        groups.append((WantedCases(str(file.resolve()), ids, _as_tuple(mark.target), mark.trials), cases))
    unmatched = unmatched_globs(run_options.case_globs, (case.id for _, cases in groups for case in cases))
    if unmatched or not any(cases for _, cases in groups):
        names = unmatched[0] if len(unmatched) == 1 else unmatched or mark.case
        raise ConfigError(f"marker agentv: no case of {mark.path} matches case={names!r} ({loaded} loaded)")
    suites = [with_wanted_cases(suite, group) for suite, (group, _) in zip(inputs.suites, groups, strict=True)]
    make_plan(suites, replace(run_options, case_globs=()), specs=inputs.specs, home=str(find_home(root)))
    for group, cases in groups:
        yield from (MarkedCase(case, replace(group, ids=(case.id,))) for case in cases)


def _require_readable(case: EvalCase | BrokenCase) -> EvalCase:
    if isinstance(case, BrokenCase):
        raise EvalFileError(case.location.path, case.problems)
    return case


def wanted_cases(items: Iterable[pytest.Item]) -> tuple[WantedCases, ...]:
    """Return the cases that the tests of a session request, grouped by file, targets and trials."""
    ids: dict[WantedCases, dict[str, None]] = {}
    for item in items:
        marked = getattr(getattr(item, "callspec", None), "params", {}).get(FIXTURE)
        if isinstance(marked, MarkedCase):
            group = replace(marked.wanted, ids=())
            ids.setdefault(group, {}).update(dict.fromkeys(marked.wanted.ids))
    return tuple(replace(group, ids=tuple(case_ids)) for group, case_ids in ids.items())
