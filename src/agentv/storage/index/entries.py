"""The trials of a case, with its prompt and target, as one entry: which of them is shown, and how many passed."""

import sqlite3
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import NamedTuple, TypeAlias

from agentv.scoring.gates.failing_cases import STATES_WORST_FIRST
from agentv.storage.index import schema as sql
from agentv.storage.index.digests import name_number
from agentv.storage.records.json_line import encode

EntryName: TypeAlias = tuple[str, str, str, str]
"""Suite, id, target and prompt; the prompt is "" if there is none."""

_CHUNK = 5_000
_RANKS: Mapping[str, int] = {state: rank for rank, state in enumerate(STATES_WORST_FIRST)}


class _Place(NamedTuple):
    """The place of a trial among those of its entry: the smallest is shown, the first trial of the worst state."""

    rank: int
    trial: int
    line: int


class Trial(NamedTuple):
    """What an entry stores of a result that counts."""

    entry: int
    place: _Place
    cell: int
    has_passed: bool


class _Entry(NamedTuple):
    """The place and the cell of the trial that is shown, and the number of trials."""

    place: _Place
    cell: int
    passed: int
    results: int


def make_trial(name: EntryName, trial: int, line: int, cell: int, state: str) -> Trial:
    """Return a result that counts as a trial of its entry."""
    place = _Place(_RANKS.get(state, len(_RANKS)), trial, line)
    return Trial(name_number(*name), place, cell, state == "pass")


def add_trials(connection: sqlite3.Connection, run: int, trials: Sequence[Trial]) -> set[int]:
    """Add trials to their entries; return the lines of those that are shown now, and hide those that were before."""
    before, after = _add(connection, run, trials)
    hidden = [each for entry, each in before.items() if after[entry].place != each.place]
    shown = [each for entry, each in after.items() if entry not in before or before[entry].place != each.place]
    connection.executemany(sql.HIDE, [(run, each.place.line) for each in hidden])
    changes = Counter(each.cell for each in shown)
    changes.subtract(each.cell for each in hidden)
    connection.executemany(sql.ADD_SHOWN, [(count, run, cell) for cell, count in changes.items()])
    return {each.place.line for each in shown}


def rebuild_entries(connection: sqlite3.Connection, run: int) -> None:
    """Make the entries of a run anew, after some of its rows began or ceased to count."""
    values = {"run": run}
    connection.execute(sql.FORGET_ENTRIES, values)
    trials = _trials(connection, run)
    while chunk := list(islice(trials, _CHUNK)):
        _add(connection, run, chunk)
    connection.execute(sql.SHOW_ENTRIES, values)
    connection.execute(sql.HIDE_CELLS, values)
    connection.executemany(sql.ADD_SHOWN, connection.execute(sql.COUNT_ENTRIES, values).fetchall())


def count_trials(
    connection: sqlite3.Connection, run: int, names: Iterable[EntryName]
) -> dict[EntryName, tuple[int, int]]:
    """Return how many results of each entry passed, and how many it has."""
    numbers = {name: name_number(*name) for name in names}
    found = _find(connection, run, numbers.values())
    entries = ((name, found.get(number)) for name, number in numbers.items())
    return {name: (entry.passed, entry.results) for name, entry in entries if entry is not None}


def _add(
    connection: sqlite3.Connection, run: int, trials: Sequence[Trial]
) -> tuple[dict[int, _Entry], dict[int, _Entry]]:
    """Add trials to their entries, and return these as they were before and are now."""
    before = _find(connection, run, {each.entry for each in trials})
    after: dict[int, _Entry] = {}
    for entry, place, cell, has_passed in trials:
        known = after.get(entry) or before.get(entry)
        if known is None:
            after[entry] = _Entry(place, cell, int(has_passed), 1)
        else:
            shown = (place, cell) if place < known.place else (known.place, known.cell)
            after[entry] = _Entry(*shown, known.passed + has_passed, known.results + 1)
    values = ((run, entry, *place, *others) for entry, (place, *others) in after.items())
    connection.executemany(sql.SET_ENTRY, values)
    return before, after


def _find(connection: sqlite3.Connection, run: int, entries: Collection[int]) -> dict[int, _Entry]:
    numbers = encode(list(entries)).decode()
    found = connection.execute(sql.FIND_ENTRIES, {"run": run, "entries": numbers})
    return {entry: _Entry(_Place(rank, trial, line), *others) for entry, rank, trial, line, *others in found}


def _trials(connection: sqlite3.Connection, run: int) -> Iterator[Trial]:
    """Yield all results of a run that count."""
    for suite, eval_id, target, prompt, trial, line, cell, state in connection.execute(sql.TRIALS, {"run": run}):
        yield make_trial((suite, eval_id, target, prompt), trial, line, cell, state)
