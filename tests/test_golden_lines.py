"""Every line of the stored runs in tests/fixtures/runs is unchanged after decoding and encoding."""

import json
import re
import shutil
from pathlib import Path

import pytest

from agentv import AggregatedEvaluationResult
from agentv.cli.main import main
from agentv.storage.records.decode import EVENTS
from agentv.storage.records.decode import RUNS as RUN_JSON
from agentv.storage.records.encode import encodable_event, to_record
from agentv.storage.records.json_line import encode, pretty

RUNS = Path(__file__).parent / "fixtures" / "runs"
NAMES = sorted(path.parent.name for path in RUNS.glob("*/run.json"))
UNROUNDED = ("first-version",)
"""Runs that were written before times were rounded to microseconds: their lines are compared by their values."""
TAGGED = ("labels",)
"""Runs with tags, which `agentv runs tag` writes at the end of run.json, and other writers near its beginning."""
MERGED_FILES = ("answers.jsonl", "cases.jsonl", "labels.jsonl", "results.jsonl")
RUN_ID = re.compile(rb'^(\{"schema":"[a-z0-9-]+","run_id":)"[^"]+"')


@pytest.mark.parametrize("name", NAMES)
def test_merged_run_has_the_lines_of_its_parts(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A merge decodes and encodes all lines of its parts; of two equal parts it takes each line once."""
    monkeypatch.chdir(tmp_path)
    parts = [tmp_path / ".agentv" / "runs" / part for part in ("part", "copy")]
    for part in parts:
        # The process that a lock names may be another one on this machine.
        shutil.copytree(RUNS / name, part, ignore=shutil.ignore_patterns("lock"))
    with pytest.raises(SystemExit):
        main(["merge", "part", "copy", "--display", "none"])
    (merged,) = set(parts[0].parent.iterdir()) - set(parts)
    for file in MERGED_FILES:
        stored, written = lines_of(RUNS / name / file), lines_of(merged / file)
        if name in UNROUNDED:
            assert [values_of(line) for line in written] == [values_of(line) for line in stored]
        else:
            assert written == stored
    assert blobs_of(merged) == blobs_of(RUNS / name)


@pytest.mark.parametrize("name", NAMES)
def test_run_json_is_written_as_it_was_read(name: str) -> None:
    stored = (RUNS / name / "run.json").read_bytes()
    written = to_record(RUN_JSON.of_line(stored))
    if name in TAGGED:
        written["tags"] = written.pop("tags")
    assert pretty(written) == stored


@pytest.mark.parametrize("name", NAMES)
def test_events_are_written_as_they_were_read(name: str) -> None:
    stored = (RUNS / name / "events.jsonl").read_bytes().splitlines()
    assert [encode(encodable_event(EVENTS.of_line(line))) for line in stored] == stored


def test_judgements_are_written_as_they_were_read() -> None:
    stored = [line for line in (RUNS / "judged.jsonl").read_bytes().splitlines() if b'"overallScore"' in line]
    assert len(stored) == 3
    for line in stored:
        record = json.loads(line)
        written = AggregatedEvaluationResult.from_dict(record).to_dict() | {"source": record["source"]}
        assert encode(written) == line


def lines_of(path: Path) -> list[bytes]:
    """Return the lines of a file without the id of the run, which a merge changes."""
    return [RUN_ID.sub(rb"\1", line) for line in path.read_bytes().splitlines()] if path.exists() else []


def values_of(line: bytes) -> object:
    return json.loads(line.replace(b'"run_id":,', b""), object_hook=with_rounded_times)


def with_rounded_times(values: dict[str, object]) -> dict[str, object]:
    return {
        key: round(value, 3) if key == "duration_ms" and isinstance(value, float) else value
        for key, value in values.items()
    }


def blobs_of(run: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (run / "blobs").glob("*")}
