"""The tables of `.agentv/index.db`, whose content is derived from runs, and statements on them."""

VERSION = 8
"""Stored in the file. An index of another version is emptied and rebuilt."""

APPLICATION_ID = 0x61677476
"""Marks the file as an index of agentv: `agtv`."""

# `current` of a row: 0 superseded by a later generation, 1 current, 2 of a retired case (see refresh.py).
# Equal sets of tags or metadata are stored once per run, numbered by 63 bits of their digest (0 for the empty set).
# A cell is one combination of suite, target, prompt, state and tags, numbered in the same way; rows name their cell.
# `by_cell` covers all columns for counting and filtering, so that counting never visits the rows themselves.
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
    cell INTEGER NOT NULL,
    eval_id TEXT NOT NULL,
    trial INTEGER NOT NULL,
    metadata_set INTEGER NOT NULL,
    score REAL,
    cost_usd REAL,
    duration_ms REAL,
    PRIMARY KEY (run, line)
) WITHOUT ROWID;
CREATE INDEX by_cell ON rows (run, current, cell, eval_id, metadata_set);
CREATE INDEX by_case ON rows (run, current, eval_id);
CREATE TABLE cells (
    run INTEGER NOT NULL,
    cell INTEGER NOT NULL,
    suite TEXT NOT NULL,
    target TEXT NOT NULL,
    prompt TEXT NOT NULL,
    state TEXT NOT NULL,
    tag_set INTEGER NOT NULL,
    PRIMARY KEY (run, cell)
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
CREATE TABLE metadata (
    run INTEGER NOT NULL,
    key TEXT NOT NULL,
    metadata_set INTEGER NOT NULL,
    value TEXT,
    PRIMARY KEY (run, key, metadata_set)
) WITHOUT ROWID;
CREATE TABLE sums (
    run INTEGER NOT NULL,
    suite TEXT NOT NULL,
    target TEXT NOT NULL,
    data BLOB NOT NULL,
    PRIMARY KEY (run, suite, target)
) WITHOUT ROWID;
"""

TABLES_OF_RUN = ("rows", "cells", "tag_sets", "tags", "metadata", "sums", "runs")

FIND_RUN = """
SELECT run, results_stamp, events_stamp, end_offset, lines, skipped, tail, has_generations, counts, ended, is_readable
FROM runs WHERE folder = :folder
"""
ADD_RUN = """
INSERT INTO runs (folder, results_stamp, events_stamp, end_offset, lines, skipped, tail, has_generations, counts,
                  is_readable)
VALUES (:folder, '', '', 0, 0, 0, x'', 0, '{}', 1)
"""
MARK_RESULTS = """
UPDATE runs SET results_stamp = :stamp, end_offset = :end_offset, lines = :lines, skipped = :skipped, tail = :tail,
                has_generations = :has_generations, counts = :counts
WHERE run = :run
"""
MARK_EVENTS = """
UPDATE runs SET events_stamp = :stamp, ended = :ended, is_readable = :is_readable WHERE run = :run
"""

ADD_ROW = """
INSERT INTO rows (run, line, offset, bytes, generation, current, cell, eval_id, trial, metadata_set, score, cost_usd,
                  duration_ms)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
ADD_CELL = "INSERT OR IGNORE INTO cells (run, cell, suite, target, prompt, state, tag_set) VALUES (?, ?, ?, ?, ?, ?, ?)"
ADD_TAG_SET = "INSERT OR IGNORE INTO tag_sets (run, tag_set, tags) VALUES (?, ?, ?)"
ADD_TAG = "INSERT OR IGNORE INTO tags (run, tag, tag_set) VALUES (?, ?, ?)"
ADD_METADATA = "INSERT OR IGNORE INTO metadata (run, key, metadata_set, value) VALUES (?, ?, ?, ?)"

# For each result key in the new lines, the rows with the highest generation are current, even if there are several.
HIGHEST_GENERATIONS = """
CREATE TEMP TABLE highest AS
SELECT suite, eval_id, target, trial, prompt, max(0, max(generation)) AS generation
FROM rows JOIN cells USING (run, cell)
WHERE run = :run AND current IN (0, 1)
  AND eval_id IN (SELECT eval_id FROM rows WHERE run = :run AND line > :after)
GROUP BY suite, eval_id, target, trial, prompt
"""
INDEX_HIGHEST = "CREATE INDEX temp.highest_key ON highest (eval_id, suite, target, trial, prompt)"
MARK_CURRENT = """
UPDATE rows SET current = generation = (
    SELECT highest.generation FROM cells JOIN temp.highest AS highest USING (suite, target, prompt)
    WHERE cells.run = rows.run AND cells.cell = rows.cell
      AND highest.eval_id = rows.eval_id AND highest.trial = rows.trial)
WHERE run = :run AND current IN (0, 1) AND eval_id IN (SELECT eval_id FROM temp.highest)
"""
FORGET_HIGHEST = "DROP TABLE temp.highest"

# Counts the rows of each cell before it looks the cell up, so once for each cell, not for each row.
COUNT_STATES = """
SELECT state, sum(results) FROM (
    SELECT cell, count(*) AS results FROM rows WHERE run = :run AND current = 1 GROUP BY cell)
CROSS JOIN cells USING (cell) WHERE run = :run GROUP BY state
"""
TAG_SETS = "SELECT tag_set, tags FROM tag_sets WHERE run = :run"

SUMMED_STAMP = "SELECT summed_stamp FROM runs WHERE run = :run"
FIND_SUMS = "SELECT suite, target, data FROM sums WHERE run = :run"
FORGET_SUMS = "DELETE FROM sums WHERE run = :run"
ADD_SUMS = "INSERT INTO sums (run, suite, target, data) VALUES (?, ?, ?, ?)"
MARK_SUMS = "UPDATE runs SET summed_stamp = :stamp WHERE run = :run"
