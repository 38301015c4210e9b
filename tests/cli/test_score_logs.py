"""`agentv score` on logs as other programs export them: no converter, nothing lost, nothing passed by mistake."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support.logs import SHAPES, conversations, logged, numbered

from agentv.cli.main import main

CONFIG = """
evaluators:
  - {type: regex, name: numbered, pattern: 'please \\(\\d+\\) write'}
  - {type: contains, name: days, value: 30 days}
gates: ["pass_rate >= 100%"]
"""
Call = Callable[..., tuple[int, str]]


@pytest.fixture
def score(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    (tmp_path / ".git").mkdir()
    (tmp_path / "config.yaml").write_text(CONFIG)
    monkeypatch.chdir(tmp_path)

    def call(lines: list[dict[str, Any]], *arguments: str) -> tuple[int, str]:
        Path("log.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        with pytest.raises(SystemExit) as left:
            main(["score", "log.jsonl", "--config", "config.yaml", *arguments])
        return int(left.value.code or 0), capsys.readouterr().out

    return call


@pytest.mark.parametrize("shape", SHAPES)
def test_two_thousand_logged_conversations_are_judged_as_they_are(score: Call, shape: str) -> None:
    forms = conversations(shape)
    lines = [numbered(forms[number % len(forms)], number) for number in range(2000)]
    code, out = score(lines, "-o", "judged.jsonl")
    assert code == 0, out
    assert "2,000 of 2,000" in out
    given = [json.loads(line)["inputSnapshot"] for line in Path("judged.jsonl").read_text().splitlines()]
    assert len({each["id"] for each in given}) == 2000


def test_steps_of_traces_are_counted_and_not_scored(score: Call) -> None:
    lines = [numbered(line, number) for number, line in enumerate(logged("langsmith"))]
    code, out = score(lines)
    assert code == 0
    assert "not scored, because they are parts of a trace: 1 LangSmith tool run; --map response=PATH" in out
    code, out = score(lines[-1:])
    assert code == 5
    assert "all 1 lines are parts of a trace" in out


def test_a_line_of_unknown_shape_is_an_error_with_its_place(score: Call) -> None:
    code, out = score([numbered(conversations("prompt")[0], 1), {"q": "Where?", "reply": "30 days, please (1) write"}])
    assert code == 3
    assert "! log.jsonl:2" in out
    assert "this line has the keys 'q', 'reply'; name the fields with --map FIELD=PATH" in out


def test_a_log_with_keys_of_its_own_is_mapped(score: Call) -> None:
    line = {"q": "Where?", "reply": "30 days, please (1) write", "shop": "Rome"}
    maps = ("--map", "prompt=q", "--map", "response=reply", "--map", "session_id=user.session")
    code, out = score([line], *maps)
    assert code == 3
    assert "$.shop unknown key 'shop'; keep such keys with --extra metadata" in out
    code, out = score([line], *maps, "--extra", "metadata", "-o", "judged.jsonl")
    assert code == 0
    assert "no line has the path of --map session_id=user.session" in out
    [judged] = map(json.loads, Path("judged.jsonl").read_text().splitlines())
    assert judged["inputSnapshot"]["prompt"] == "Where?"
    assert judged["inputSnapshot"]["metadata"] == {"shop": "Rome"}


def test_a_wrong_map_is_refused_before_the_first_line(score: Call) -> None:
    assert score(conversations("prompt"), "--map", "answer=x")[0] == 4


def test_a_json_export_is_read_record_by_record(score: Call) -> None:
    lines = [numbered(line, number) for number, line in enumerate(conversations("langfuse"))]
    Path("export.json").write_text(json.dumps(lines, indent=2))
    code, out = score([], "export.json", "-o", "judged.jsonl")
    assert code == 0
    assert f"{len(lines)} of {len(lines)}" in out
    judged = map(json.loads, Path("judged.jsonl").read_text().splitlines())
    first = min(judged, key=lambda line: line["source"]["line"])
    assert first["source"] == {"file": "export.json", "line": 2}
