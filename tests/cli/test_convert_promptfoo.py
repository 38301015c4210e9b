"""`agentv convert promptfooconfig.yaml`: an eval file that runs, and a list of what is lost."""

import json
from pathlib import Path

import click
import pytest
from tests.support.fake_server import serving_fake

from agentv.cli.main import agentv

CONFIG = """\
description: Capitals
prompts: ["What is the capital of {{ country | upper }}? Answer in {{style}}."]
providers: [echo]
defaultTest:
  vars: {style: one word}
  assert:
    - {type: latency, threshold: 5000}
tests:
  - vars: {country: [France, Spain]}
    assert:
      - {type: icontains, value: "{{ country }}"}
      - {type: javascript, value: "output.length < 200"}
      - type: python
        value: len(output) < 200 and context['vars']['style'] == 'one word'
      - {type: python, value: "file://checks.py"}
      - type: python
        threshold: 0.5
        value: |
          words = output.split()
          return len(words) / 20
      - {type: is-html}
  - description: Rome
    vars: {country: Italy}
    assert:
      - type: assert-set
        threshold: 0.5
        assert: [{type: contains, value: Nope}, {type: contains, value: ITALY}]
      - {type: not-contains, value: xyz, weight: 2, metric: clean}
"""

CHECKS = """\
def get_assert(output, context):
    passed = context["vars"]["country"].upper() in output
    return {"pass": passed, "score": 0.9, "reason": "looked for the country"}
"""


@pytest.fixture(autouse=True)
def _in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("promptfooconfig.yaml").write_text(CONFIG)
    Path("checks.py").write_text(CHECKS)
    Path("evals").mkdir()


def call(*arguments: str) -> int:
    code: int = agentv.main(list(arguments), standalone_mode=False) or 0
    return code


def convert(*more: str) -> None:
    call("convert", "promptfooconfig.yaml", "-o", "evals/suite.yaml", *more)


def test_a_converted_suite_runs_with_python_assertions(capsys: pytest.CaptureFixture[str]) -> None:
    convert()
    out, err = capsys.readouterr()
    assert out == (
        "Wrote evals/suite.yaml\nWrote evals/targets.yaml\nWrote evals/suite_judges.py\n"
        "Converted from promptfoo: 3 cases; see the 1 note above\n"
        "Next: agentv check evals/suite.yaml, then agentv run evals/suite.yaml\n"
    )
    assert err == (
        "promptfooconfig.yaml:21:10  $.tests[0].assert[5].type  warning: "
        "`is-html`: is not carried over: use a code_judge with a parser\n"
    )
    assert call("check", "evals") == 0
    assert call("run", "evals/suite.yaml", "-o", "rows.jsonl") == 0
    rows = [json.loads(line) for line in Path("rows.jsonl").read_text().splitlines()]
    assert [(row["eval_id"], row["verdict"]) for row in rows] == [
        ("test-1", "pass"),
        ("test-2", "pass"),
        ("rome", "pass"),
    ]
    scores = {item["name"]: item["score"] for item in rows[0]["evaluator_results"]}
    assert (scores["python-2"], scores["python-3"]) == (0.9, 0.8)  # 10 of 20 words reach the threshold


def test_an_openai_provider_is_called_at_its_address(capsys: pytest.CaptureFixture[str]) -> None:
    with serving_fake() as server:
        provider = {"id": "openai:chat:fake", "config": {"apiBaseUrl": f"{server.url}/v1", "temperature": 0}}
        tests = [{"vars": {"q": "Say hello"}, "assert": [{"type": "word-count", "value": {"min": 1}}]}]
        config = {"prompts": ["{{ q }}"], "providers": [provider], "tests": tests}
        Path("promptfooconfig.json").write_text(json.dumps(config))
        Path(".env").write_text("OPENAI_API_KEY=fake-key\n")
        call("convert", "promptfooconfig.json", "-o", "evals/suite.yaml")
        assert call("run", "evals/suite.yaml") == 0
    assert "PASS: 1 of 1" in capsys.readouterr().out


def test_a_python_provider_becomes_a_target() -> None:
    Path("agent.py").write_text(
        "def call_api(prompt, options, context):\n"
        "    return {'output': options['config']['greeting'] + prompt, 'tokenUsage': {'prompt': 3, 'completion': 4}}\n"
    )
    provider = {"id": "file://agent.py", "config": {"greeting": "Hi, "}}
    config = {
        "prompts": ["you"],
        "providers": [provider],
        "tests": [{"assert": [{"type": "equals", "value": "Hi, you"}]}],
    }
    Path("promptfooconfig.yaml").write_text(json.dumps(config))
    convert()
    assert call("run", "evals/suite.yaml", "-o", "rows.jsonl") == 0
    (row,) = [json.loads(line) for line in Path("rows.jsonl").read_text().splitlines()]
    assert row["usage_by"]["target"]["total"] == 7


def test_the_list_of_losses_is_also_json(capsys: pytest.CaptureFixture[str]) -> None:
    convert("--json")
    told = json.loads(capsys.readouterr().out)
    assert (told["schema"], told["cases"]) == ("agentv-convert-1", 3)
    assert [(note["line"], note["json_path"]) for note in told["notes"]] == [(21, "$.tests[0].assert[5].type")]


def test_existing_files_are_never_overwritten() -> None:
    Path("evals/targets.yaml").write_text("targets: []\n")
    with pytest.raises(click.UsageError, match=r"evals/targets\.yaml exists already"):
        convert()
    assert sorted(path.name for path in Path("evals").iterdir()) == ["targets.yaml"]


def test_several_targets_answer_without_options(capsys: pytest.CaptureFixture[str]) -> None:
    config = {"prompts": ["x"], "providers": ["echo", {"id": "exec: cat", "label": "cat"}], "tests": [{}]}
    Path("promptfooconfig.yaml").write_text(json.dumps(config))
    convert()
    assert "agentv run evals/suite.yaml\n" in capsys.readouterr().out
    assert "targets:\n    - echo\n    - cat\n" in Path("evals/suite.yaml").read_text()
