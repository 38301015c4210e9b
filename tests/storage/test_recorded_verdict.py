"""The verdict that a run recorded is read from a regular file only."""

import os
from pathlib import Path

import pytest

from agentv.storage.run.recorded_verdict import recorded_sentence

REPORTED = '{"type":"reported","sentence":"PASS: all","counts":{"pass":1}}\n'


def test_the_recorded_sentence_is_that_of_the_same_counts(tmp_path: Path) -> None:
    (tmp_path / "events.jsonl").write_text(f'{{"type":"begun"}}\n{REPORTED}')
    assert recorded_sentence(tmp_path, {"pass": 1}) == "PASS: all"
    assert recorded_sentence(tmp_path, {"pass": 2}) is None


@pytest.mark.timeout(20)
def test_a_pipe_in_place_of_the_events_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "events.jsonl")
    assert recorded_sentence(tmp_path, {"pass": 1}) is None
