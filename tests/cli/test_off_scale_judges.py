"""A judge off its scale: an error in every report of `agentv run` and `agentv score`, never a pass; clamped counted."""

import json
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path

import pytest

from agentv.cli.main import main

SUITE = """
target: agent
execution: {evaluators: [{name: tone, type: llm_judge}]}
evalcases:
  - {id: far, expected_outcome: Is good, input_messages: [{role: user, content: How?}]}
  - {id: near, expected_outcome: Is good, input_messages: [{role: user, content: Who?}]}
"""
TARGETS = """
targets:
  - {name: agent, provider: mock, response: hello, judge_target: judge}
  - {name: judge, provider: mock, response: {far: '{"score": 10}', near: '{"score": 1.2}'}}
"""
CONFIG = "{evaluators: [{name: tone, type: llm_judge, judge: judge}]}"
Call = Callable[..., tuple[int, str]]


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    """Return a function that calls agentv in a folder with the suite, the targets and the config."""
    (tmp_path / ".agentv").mkdir()
    (tmp_path / "suite.yaml").write_text(SUITE)
    (tmp_path / "targets.yaml").write_text(TARGETS)
    (tmp_path / "judge.yaml").write_text(CONFIG)
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> tuple[int, str]:
        with pytest.raises(SystemExit) as left:
            main(list(arguments))
        said = capsys.readouterr()
        return int(left.value.code or 0), said.out + said.err

    return run


def test_a_score_off_its_scale_is_an_error_in_every_report(call: Call, tmp_path: Path) -> None:
    files = [part for name in ("r.json", "r.xml", "r.md", "r.html") for part in ("-o", name)]
    code, said = call("run", "suite.yaml", *files)
    sentence = (
        "INCOMPLETE: the judge failed on 1 of 2 results; 1 result with an error; "
        "the gate holds on the 1 judged result. 1 result has a clamped score."
    )
    assert (code, sentence in said) == (3, True)
    report = json.loads((tmp_path / "r.json").read_text())
    assert (report["verdict"], report["targets"][0]["clamped"]) == (sentence, 1)
    properties = [(each.get("name"), each.get("value")) for each in ET.parse(tmp_path / "r.xml").iter("property")]
    assert ("agentv.clamped", "1") in properties
    assert ("agentv.verdict", sentence) in properties
    markdown = (tmp_path / "r.md").read_text()
    assert sentence in markdown
    assert ", 1 clamped" in markdown
    page = (tmp_path / "r.html").read_text()
    assert sentence in page
    assert "10 is outside 0 to 1" in page


def test_a_stored_result_off_its_scale_is_judged_again(call: Call, tmp_path: Path) -> None:
    call("run", "suite.yaml")
    (tmp_path / "targets.yaml").write_text(TARGETS.replace("10", "0.9"))
    code, said = call("retry", "latest", "--errors")
    assert (code, "PASS: 2 of 2 judged results passed (100 %). 1 result has a clamped score." in said) == (0, True)
    (tmp_path / "targets.yaml").write_text(TARGETS)
    assert call("rescore", "latest")[0] == 3


@pytest.mark.parametrize(
    ("score", "code", "sentence"),
    [
        ("10", 3, "INCOMPLETE: the judge failed on 1 of 1 line; no line could be judged. 1 line with an error."),
        ("1.4", 0, "PASS: 1 of 1 judged line passed (100 %). 1 line has a clamped score."),
    ],
)
def test_a_logged_answer_is_judged_by_the_same_rule(
    call: Call, tmp_path: Path, score: str, code: int, sentence: str
) -> None:
    judge = json.dumps({"targets": [{"name": "judge", "provider": "mock", "response": f'{{"score": {score}}}'}]})
    (tmp_path / "targets.yaml").write_text(judge)
    (tmp_path / "log.jsonl").write_text('{"prompt": "How?", "response": "hello"}')
    left, said = call("score", "log.jsonl", "--config", "judge.yaml", "--json")
    report = json.loads(said[said.index("{") :])
    assert (left, report["verdict"], report.get("clamped", 0)) == (code, sentence, int(code == 0))
