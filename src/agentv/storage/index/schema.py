"""The tables of `.agentv/index.db`, whose content is derived from runs, and statements on them."""

from collections.abc import Mapping

from agentv.storage.index.row_query import SortKey

VERSION = 11
"""Stored in the file. An index of another version is emptied and rebuilt."""

APPLICATION_ID = 0x61677476
"""Marks the file as an index of agentv: `agtv`."""

# `current` of a row: 1 if it counts (see storage/run/first_answers.py), 2 of a retired case, else 0.
# Equal sets of tags or metadata are stored once per run, numbered by 63 bits of their digest (0 for the empty set).
# Trials of a case with its prompt and target are one entry, numbered by 63 bits of a digest of these names. `shown`
# is 1 for the row that is shown of an entry, else 0; an entry has its place, and how many of its results passed.
# A cell is one combination of suite, target, prompt, state, tags and outcomes of evaluators, numbered in the same way;
# rows name their cell, and a cell has the number of its rows that count, and of those that are shown.
# `state_rank` of a row is its place in the order of states (STATES). `answer` is the `seq` of its answer.
# `by_cell` covers all columns for counting and filtering, so that counting never visits the rows themselves.
# `cases`, `answers` and `stages` are used in the index of a single run (pages.py) only: the places of lines in
# cases.jsonl, by 63 bits of a digest of suite, id and prompt, and in answers.jsonl, and how far the run is indexed.
TABLES = """
CREATE TABLE runs (
    run INTEGER PRIMARY KEY,
    folder TEXT NOT NULL UNIQUE,
    results_stamp TEXT NOT NULL,
    events_stamp TEXT NOT NULL,
    end_offset INTEGER NOT NULL,
    lines INTEGER NOT NULL,
    skipped INTEGER NOT NULL,
    tail BLOB NOT NULL,
    has_generations INTEGER NOT NULL,
    counts TEXT NOT NULL,
    entries INTEGER NOT NULL DEFAULT 0,
    ended TEXT,
    is_readable INTEGER NOT NULL,
    summed_stamp TEXT NOT NULL DEFAULT ''
);
CREATE TABLE rows (
    run INTEGER NOT NULL,
    line INTEGER NOT NULL,
    offset INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    generation INTEGER NOT NULL,
    current INTEGER NOT NULL,
    shown INTEGER NOT NULL,
    cell INTEGER NOT NULL,
    state_rank INTEGER NOT NULL,
    eval_id TEXT NOT NULL,
    trial INTEGER NOT NULL,
    metadata_set INTEGER NOT NULL,
    score REAL,
    cost_usd REAL,
    duration_ms REAL,
    answer INTEGER,
    PRIMARY KEY (run, line)
) WITHOUT ROWID;
CREATE INDEX by_cell ON rows (run, current, cell, eval_id, metadata_set, state_rank, shown);
CREATE INDEX by_case ON rows (run, current, eval_id);
CREATE TABLE cells (
    run INTEGER NOT NULL,
    cell INTEGER NOT NULL,
    suite TEXT NOT NULL,
    target TEXT NOT NULL,
    prompt TEXT NOT NULL,
    state TEXT NOT NULL,
    tag_set INTEGER NOT NULL,
    outcome_set INTEGER NOT NULL,
    results INTEGER NOT NULL DEFAULT 0,
    shown INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (run, cell)
) WITHOUT ROWID;
CREATE TABLE entries (
    run INTEGER NOT NULL,
    entry INTEGER NOT NULL,
    rank INTEGER NOT NULL,
    trial INTEGER NOT NULL,
    line INTEGER NOT NULL,
    cell INTEGER NOT NULL,
    passed INTEGER NOT NULL,
    results INTEGER NOT NULL,
    PRIMARY KEY (run, entry)
) WITHOUT ROWID;
CREATE TABLE tag_sets (
    run INTEGER NOT NULL,
    tag_set INTEGER NOT NULL,
    tags TEXT NOT NULL,
    PRIMARY KEY (run, tag_set)
) WITHOUT ROWID;
CREATE TABLE tags (
    run INTEGER NOT NULL,
    tag TEXT NOT NULL,
    tag_set INTEGER NOT NULL,
    PRIMARY KEY (run, tag, tag_set)
) WITHOUT ROWID;
CREATE TABLE outcome_sets (
    run INTEGER NOT NULL,
    outcome_set INTEGER NOT NULL,
    outcomes TEXT NOT NULL,
    PRIMARY KEY (run, outcome_set)
) WITHOUT ROWID;
CREATE TABLE outcomes (
    run INTEGER NOT NULL,
    evaluator TEXT NOT NULL,
    outcome TEXT NOT NULL,
    outcome_set INTEGER NOT NULL,
    PRIMARY KEY (run, evaluator, outcome, outcome_set)
) WITHOUT ROWID;
CREATE TABLE metadata (
    run INTEGER NOT NULL,
    key TEXT NOT NULL,
    metadata_set INTEGER NOT NULL,
    value TEXT,
    PRIMARY KEY (run, key, metadata_set)
) WITHOUT ROWID;
CREATE TABLE cases (
    run INTEGER NOT NULL,
    name INTEGER NOT NULL,
    offset INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    PRIMARY KEY (run, name)
) WITHOUT ROWID;
CREATE TABLE answers (
    run INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    offset INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    PRIMARY KEY (run, seq)
) WITHOUT ROWID;
CREATE TABLE stages (
    run INTEGER PRIMARY KEY,
    is_sorted INTEGER NOT NULL DEFAULT 0,
    cases_end INTEGER NOT NULL DEFAULT 0,
    answers_end INTEGER NOT NULL DEFAULT 0,
    answers INTEGER NOT NULL DEFAULT 0,
    words_end INTEGER NOT NULL DEFAULT 0,
    words INTEGER NOT NULL DEFAULT 0
);
CREATE TABLE sums (
    run INTEGER NOT NULL,
    suite TEXT NOT NULL,
    target TEXT NOT NULL,
    data BLOB NOT NULL,
    PRIMARY KEY (run, suite, target)
) WITHOUT ROWID;
"""

TABLES_OF_RUN = (
    "rows",
    "cells",
    "entries",
    "tag_sets",
    "tags",
    "outcome_sets",
    "outcomes",
    "metadata",
    "cases",
    "answers",
    "stages",
    "sums",
    "runs",
)

STATES = ("error", "fail", "borderline", "pass")
"""The states in the order of sorting, the worst first; all others come after them."""

_COVERED = ("cell", "score", "cost_usd", "duration_ms", "trial")


def _sorted_index(name: str, column: str, direction: str) -> str:
    others = ", ".join(each for each in _COVERED if each != column)
    return f"CREATE INDEX {name} ON rows (run, current, shown, {column} {direction}, line, {others})"


SORT_COLUMNS: Mapping[SortKey, str] = {
    "written": "line",
    "id": "eval_id",
    "state": "state_rank",
    "score": "score",
    "cost": "cost_usd",
    "duration": "duration_ms",
}
# Each covers the columns that are filtered by, so that walking it visits no rows. There is one for each direction,
# because equal values keep the order of writing in both; the order of writing has no equal values.
SORTED_INDEXES: Mapping[str, str] = {
    **{f"{key}_up": _sorted_index(f"{key}_up", column, "") for key, column in SORT_COLUMNS.items() if key != "written"},
    **{
        f"{key}_down": _sorted_index(f"{key}_down", column, "DESC")
        for key, column in SORT_COLUMNS.items()
        if key != "written"
    },
    "written": f"CREATE INDEX written ON rows (run, current, shown, line, {', '.join(reversed(_COVERED))})",
    "cell_score": """
        CREATE INDEX cell_score ON rows (run, current, shown, cell, score, line, cost_usd, duration_ms, trial)""",
}
"""The statements that make the indexes for pages by cursor, in the index of a single run, by name."""

FIND_RUN = """
SELECT run, results_stamp, events_stamp, end_offset, lines, skipped, tail, has_generations, counts, entries, ended,
       is_readable
FROM runs WHERE folder = :folder
"""
ADD_RUN = """
INSERT INTO runs (folder, results_stamp, events_stamp, end_offset, lines, skipped, tail, has_generations, counts,
                  is_readable)
VALUES (:folder, '', '', 0, 0, 0, x'', 0, '{}', 1)
"""
MARK_RESULTS = """
UPDATE runs SET results_stamp = :stamp, end_offset = :end_offset, lines = :lines, skipped = :skipped, tail = :tail,
                has_generations = :has_generations
WHERE run = :run
"""
MARK_EVENTS = """
UPDATE runs SET events_stamp = :stamp, ended = :ended, is_readable = :is_readable WHERE run = :run
"""

ADD_ROW = """
INSERT INTO rows (run, line, offset, bytes, generation, current, cell, state_rank, eval_id, trial, metadata_set, score,
                  cost_usd, duration_ms, answer, shown)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
ADD_CELL = """
INSERT OR IGNORE INTO cells (run, cell, suite, target, prompt, state, tag_set, outcome_set)
VALUES (?, ?, ?, ?, ?, ?, ?, ?)
"""
ADD_RESULTS = "UPDATE cells SET results = results + ? WHERE run = ? AND cell = ?"
ADD_SHOWN = "UPDATE cells SET shown = shown + ? WHERE run = ? AND cell = ?"
ADD_OUTCOME_SET = "INSERT OR IGNORE INTO outcome_sets (run, outcome_set, outcomes) VALUES (?, ?, ?)"
ADD_OUTCOME = "INSERT OR IGNORE INTO outcomes (run, evaluator, outcome, outcome_set) VALUES (?, ?, ?, ?)"
ADD_TAG_SET = "INSERT OR IGNORE INTO tag_sets (run, tag_set, tags) VALUES (?, ?, ?)"
ADD_TAG = "INSERT OR IGNORE INTO tags (run, tag, tag_set) VALUES (?, ?, ?)"
ADD_METADATA = "INSERT OR IGNORE INTO metadata (run, key, metadata_set, value) VALUES (?, ?, ?, ?)"

COUNT_ALL = "UPDATE rows SET current = 1 WHERE run = :run AND current = 0"
COUNT_NOT = "UPDATE rows SET current = 0 WHERE run = :run AND line = :line AND current = 1"

RECOUNT = """
UPDATE cells SET results = (
    SELECT count(*) FROM rows WHERE rows.run = cells.run AND rows.current = 1 AND rows.cell = cells.cell)
WHERE run = :run
"""
FIND_ENTRIES = """
SELECT entry, rank, trial, line, cell, passed, results FROM entries
WHERE run = :run AND entry IN (SELECT value FROM json_each(:entries))
"""
SET_ENTRY = """
INSERT OR REPLACE INTO entries (run, entry, rank, trial, line, cell, passed, results) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
"""
FORGET_ENTRIES = "DELETE FROM entries WHERE run = :run"
TRIALS = """
SELECT suite, eval_id, target, prompt, trial, line, cell, state
FROM rows NOT INDEXED CROSS JOIN cells USING (run, cell) WHERE run = :run AND current = 1
"""
HIDE = "UPDATE rows SET shown = 0 WHERE run = ? AND line = ?"
SHOW_ENTRIES = """
UPDATE rows SET shown = 1 - shown
WHERE run = :run AND shown <> (line IN (SELECT line FROM entries WHERE run = :run))
"""
HIDE_CELLS = "UPDATE cells SET shown = 0 WHERE run = :run"
COUNT_ENTRIES = "SELECT count(*), run, cell FROM entries WHERE run = :run GROUP BY run, cell"

COUNT_STATES = """
SELECT state, sum(results), sum(shown) FROM cells WHERE run = :run AND results > 0 GROUP BY state
"""
TAG_SETS = "SELECT tag_set, tags FROM tag_sets WHERE run = :run"
OUTCOME_SETS = "SELECT outcome_set, outcomes FROM outcome_sets WHERE run = :run"

SUMMED_STAMP = "SELECT summed_stamp FROM runs WHERE run = :run"
FIND_SUMS = "SELECT suite, target, data FROM sums WHERE run = :run"
FORGET_SUMS = "DELETE FROM sums WHERE run = :run"
ADD_SUMS = "INSERT INTO sums (run, suite, target, data) VALUES (?, ?, ?, ?)"
MARK_SUMS = "UPDATE runs SET summed_stamp = :stamp WHERE run = :run"

FIND_STAGE = """
SELECT run, is_sorted, cases_end, answers_end, answers, words_end, words FROM stages WHERE run = :run
"""
ADD_STAGE = "INSERT INTO stages (run) VALUES (:run)"
ADD_CASE = "INSERT OR REPLACE INTO cases (run, name, offset, bytes) VALUES (?, ?, ?, ?)"
ADD_ANSWER = "INSERT OR REPLACE INTO answers (run, seq, offset, bytes) VALUES (?, ?, ?, ?)"
MARK_SORTED = "UPDATE stages SET is_sorted = :is_sorted WHERE run = :run"
MARK_CASES = "UPDATE stages SET cases_end = :end WHERE run = :run"
MARK_ANSWERS = "UPDATE stages SET answers_end = :end, answers = :lines WHERE run = :run"
MARK_WORDS = "UPDATE stages SET words_end = :end, words = :lines WHERE run = :run"
