"""A judge that never repeats the nonce: an error of its target, unless its unsigned verdicts are accepted."""

import json
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path

import pytest

from agentv.cli.main import main

SUITE = """
target: agent
execution: {evaluators: [{name: tone, type: llm_judge%s}]}
evalcases:
  - {id: c-1, expected_outcome: Is good, input_messages: [{role: user, content: How?}]}
"""
TARGETS = """
targets:
  - {name: agent, provider: mock, response: hello, judge_target: judge}
  - {name: judge, provider: cli, command_template: "python3 judge.py"%s}
"""
JUDGE = 'print("Here you go:", \'{"score": 0.9, "hits": [], "misses": [], "reasoning": "fine"}\')'
Call = Callable[..., tuple[int, str]]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    """Return a function that runs the suite with keys added to its evaluator and its judge."""
    (tmp_path / ".agentv").mkdir()
    (tmp_path / "judge.py").write_text(JUDGE)
    monkeypatch.chdir(tmp_path)

    def call(evaluator: str = "", judge: str = "") -> tuple[int, str]:
        (tmp_path / "suite.yaml").write_text(SUITE % evaluator)
        (tmp_path / "targets.yaml").write_text(TARGETS % judge)
        files = [part for name in ("r.json", "r.xml", "r.md", "r.html") for part in ("-o", name)]
        with pytest.raises(SystemExit) as left:
            main(["run", "suite.yaml", *files])
        said = capsys.readouterr()
        return int(left.value.code or 0), said.out + said.err

    return call


def test_without_the_nonce_a_judge_has_no_verdict(run: Call) -> None:
    code, said = run()
    assert code == 3
    assert "does not repeat the nonce of the call" in " ".join(said.replace("│", " ").split())


@pytest.mark.parametrize(("evaluator", "judge"), [(", unsigned: accept", ""), ("", ", unsigned: accept")])
def test_accepted_verdicts_are_counted_in_every_report(run: Call, tmp_path: Path, evaluator: str, judge: str) -> None:
    code, said = run(evaluator, judge)
    sentence = "PASS: 1 of 1 judged result passed (100 %). 1 result is unverified."
    assert (code, sentence in said) == (0, True)
    assert "agent: 1 of 1 passed" in said
    assert ", 1 unverified" in said
    report = json.loads((tmp_path / "r.json").read_text())
    assert (report["verdict"], report["targets"][0]["unverified"]) == (sentence, 1)
    properties = ET.parse(tmp_path / "r.xml").iter("property")
    assert ("agentv.unverified", "1") in [(each.get("name"), each.get("value")) for each in properties]
    markdown = (tmp_path / "r.md").read_text()
    assert sentence in markdown
    assert ", 1 unverified" in markdown
    page = (tmp_path / "r.html").read_text()
    assert sentence in page
    assert ">unverified<" in page


def test_another_word_for_unsigned_is_an_error(run: Call) -> None:
    code, said = run(", unsigned: yes")
    assert code == 4
    assert "unsigned" in said
