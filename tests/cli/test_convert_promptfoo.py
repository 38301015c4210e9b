"""`agentv convert promptfooconfig.yaml`: an eval file that runs, and a list of what is lost."""

import json
import shutil
from pathlib import Path
from typing import Any

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


def convert(*more: str) -> int:
    return call("convert", "promptfooconfig.yaml", "-o", "evals/suite.yaml", *more)


def write(config: dict[str, Any]) -> None:
    Path("promptfooconfig.yaml").write_text(json.dumps(config))


def run() -> tuple[int, list[dict[str, Any]]]:
    code = call("run", "evals/suite.yaml", "-o", "rows.jsonl")
    return code, [json.loads(line) for line in Path("rows.jsonl").read_text().splitlines()]


def one_test(**test: Any) -> dict[str, Any]:
    return {"prompts": ["say {{ word }}"], "providers": ["echo"], "tests": [{"vars": {"word": "yes"}, **test}]}


def test_a_converted_suite_runs_with_python_assertions(capsys: pytest.CaptureFixture[str]) -> None:
    assert convert() == 1
    out, err = capsys.readouterr()
    assert out == (
        "Wrote evals/suite.yaml\nWrote evals/targets.yaml\nWrote evals/suite_judges.py\n"
        "Converted from promptfoo: 3 cases; see the 1 loss above\n"
        "Called as it is, without being read: Python in assertions, checks.py\n"
        "Next: agentv check evals/suite.yaml, then agentv run evals/suite.yaml\n"
    )
    assert err == (
        "promptfooconfig.yaml:21:10  $.tests[0].assert[5].type  "
        "`is-html`: is not carried over: use a code_judge with a parser\n"
    )
    assert call("check", "evals") == 0
    code, rows = run()
    assert code == 0
    assert [(row["eval_id"], row["verdict"] or row["status"]) for row in rows] == [
        ("test-1", "skipped"),
        ("test-2", "skipped"),
        ("rome", "pass"),
    ]
    assert rows[0]["reasoning"].startswith("lost in conversion: `is-html`: is not carried over")
    results = {item["name"]: (item["score"], item["verdict"]) for item in rows[0]["evaluator_results"]}
    assert results["python-2"] == (0.9, "pass")
    assert results["python-3"] == (0.5, "pass")  # 10 of 20 words reach the threshold


def test_losses_are_allowed_on_request() -> None:
    assert convert("--allow-loss") == 0


def test_what_is_only_changed_is_no_loss(capsys: pytest.CaptureFixture[str]) -> None:
    write({**one_test(**{"assert": [{"type": "not-is-refusal"}]}), "sharing": True})
    assert convert() == 0
    assert "Converted from promptfoo: 1 case; see the 2 notes above\n" in capsys.readouterr().out


def test_a_test_that_lost_all_assertions_is_skipped(capsys: pytest.CaptureFixture[str]) -> None:
    write(one_test(**{"assert": [{"type": "is-html"}]}))
    assert convert() == 1
    assert call("check", "evals/suite.yaml") == 0
    assert "case 'test-1' is not run (`skip`): lost in conversion: `is-html`" in capsys.readouterr().out
    code, (row,) = run()
    assert (code, row["status"]) == (3, "skipped")


def test_a_test_that_lost_an_assertion_may_still_fail() -> None:
    write(one_test(**{"assert": [{"type": "is-html"}, {"type": "contains", "value": "no such text"}]}))
    assert convert() == 1
    code, (row,) = run()
    assert (code, row["verdict"]) == (1, "fail")


def test_a_lost_assertion_without_weight_decides_nothing() -> None:
    write(one_test(**{"assert": [{"type": "is-html", "weight": 0}, {"type": "contains", "value": "yes"}]}))
    assert convert() == 1
    code, (row,) = run()
    assert (code, row["verdict"]) == (0, "pass")


LOSSES: dict[str, dict[str, Any]] = {
    "a prompt by a script": {"prompts": [{"raw": "exec:./x.sh", "label": "script"}]},
    "a prompt by a script in a text": {"prompts": ["exec: ./x.sh"]},
    "a template with code": {"prompts": ["{% if word %}say {{ word }}{% endif %}"]},
    "a table of another kind": {"tests": "file://tests.xlsx"},
    "tests by code": {"tests": "file://tests.js"},
    "a variable by code": {"tests": [{"vars": {"word": "file://word.js"}}]},
    "a transform of the answer": {"defaultTest": {"options": {"transform": "output.trim()"}}},
    "a transform of the provider": {"providers": [{"id": "echo", "transform": "output.trim()"}]},
    "a scoring function": {"defaultTest": {"assertScoringFunction": "file://score.js"}},
    "an unknown provider": {"tests": [{"provider": "bedrock:x", "vars": {"word": "yes"}}]},
    "a lost member of a set": {
        "tests": [
            {"assert": [{"type": "assert-set", "assert": [{"type": "is-html"}, {"type": "contains", "value": "say"}]}]}
        ]
    },
    "a lost assertion below a threshold": {
        "tests": [{"threshold": 0.5, "assert": [{"type": "is-html"}, {"type": "contains", "value": "say"}]}]
    },
}


@pytest.mark.parametrize("change", LOSSES.values(), ids=LOSSES)
def test_what_is_lost_never_passes(change: dict[str, Any]) -> None:
    Path("tests.xlsx").write_bytes(b"PK")
    write({**one_test(**{"assert": [{"type": "contains", "value": "say"}]}), **change})
    assert convert() == 1
    code, rows = run()
    assert code == 3
    assert {row["status"] for row in rows} == {"skipped"}
    assert all(row["reasoning"].startswith("lost in conversion: ") for row in rows)


def test_a_file_that_does_not_pass_check_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    write(one_test(**{"assert": [{"type": "regex", "value": "(yes"}]}))
    assert convert() == 1
    out, err = capsys.readouterr()
    assert "evals/suite.yaml does not pass agentv check: correct the 1 error above first\n" in out
    assert "is not a valid regular expression" in err


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


PROVIDER = """\
def call_api(prompt, options, context):
    assert context["prompt"]["raw"] == prompt
    assert context["test"]["vars"] == context["vars"]
    return {"output": f"{context['vars']['word']} {context['vars']['count'] + 1} {context['vars']['missing'] == ''}"}
"""


def test_a_python_provider_gets_the_variables(capsys: pytest.CaptureFixture[str]) -> None:
    Path("agent.py").write_text(PROVIDER)
    variables = {"word": "yes", "count": 2, "missing": ""}
    test = {"vars": variables, "assert": [{"type": "equals", "value": "yes 3 True"}]}
    write({"prompts": ["{{ word }}"], "providers": ["file://agent.py"], "tests": [test]})
    assert convert() == 0
    out = capsys.readouterr().out
    assert "everything but the code was converted\nCalled as it is, without being read: agent.py\n" in out
    assert run()[0] == 0


def test_a_python_provider_gets_the_columns_of_a_table() -> None:
    Path("agent.py").write_text("def call_api(prompt, options, context):\n    return context['vars']['word']\n")
    Path("words.csv").write_text("word\nyes\nno\n")
    default = {"assert": [{"type": "equals", "value": "{{ word }}"}]}
    config = {"prompts": ["say"], "providers": ["file://agent.py"], "tests": "words.csv", "defaultTest": default}
    write(config)
    assert convert() == 0
    code, rows = run()
    assert (code, [row["candidate_answer"] for row in rows]) == (0, ["yes", "no"])


@pytest.mark.parametrize(("kind", "code"), [("contains", 0), ("is-html", 1)])
def test_an_empty_answer_fails_where_no_assertion_counts(kind: str, code: int) -> None:
    write(one_test(**{"assert": [{"type": kind, "value": "no", "weight": 0}]}))
    assert convert() == code
    assert [row["verdict"] for row in run()[1]] == ["pass"]
    Path("evals/targets.yaml").write_text("targets: [{name: echo, provider: mock, response: ''}]")
    assert [row["verdict"] for row in run()[1]] == ["fail"]


needs_node = pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
JAVASCRIPT: dict[str, tuple[Any, str]] = {
    "true": ("output.length > 3", "pass"),
    "false": ("output.length > 300", "fail"),
    "zero": ("0", "fail"),
    "a number": ("0.3", "pass"),
    "declarations": ("const words = output.split(' '); words[1] === 'yes;'.slice(0, 3)", "pass"),
    "lines": ("const n = output.length;\nreturn n > 300;\n", "fail"),
    "a grading result": ("({pass: false, score: 1, reason: 'no'})", "fail"),
    "a promise": ("Promise.resolve(true)", "pass"),
    "nothing": ("undefined", "fail"),
    "a thrown error": ("JSON.parse(output).a", "fail"),
    "a name that does not exist": ("noSuchName", "error"),
    "declarations alone": ("const words = output.length > 3;", "error"),
    "broken code": ("output ==", "error"),
    "an unknown entry": ("context.providerResponse.cost < 1", "error"),
    "the context": ("context.vars.word === 'yes' && context.prompt.endsWith('yes') && context.test.vars.word", "fail"),
    "a variable": ("output.trim().endsWith('{{ word }}')", "pass"),
    "a require": ("process.mainModule.require('path').basename('/a/' + output) === output", "pass"),
    "a log": ("console.log('{}') || true", "pass"),
}


def javascript_row(assertion: dict[str, Any]) -> dict[str, Any]:
    write(one_test(**{"assert": [{"type": "javascript", **assertion}]}))
    assert convert() == 0
    _, (row,) = run()
    return row


@needs_node
@pytest.mark.parametrize(("code", "state"), JAVASCRIPT.values(), ids=JAVASCRIPT)
def test_javascript_runs_with_node(code: str, state: str) -> None:
    row = javascript_row({"value": code})
    assert (row["verdict"] or row["status"]) == state, row


@needs_node
@pytest.mark.parametrize(
    ("assertion", "state", "score"),
    [
        ({"value": "0.3", "threshold": 0.5}, "fail", 0.3),
        ({"value": "7", "threshold": 5}, "pass", 1.0),
        ({"value": "output.length > 3", "type": "not-javascript"}, "fail", 0.0),
        ({"value": "0.3", "type": "not-javascript"}, "fail", 0.3),
        ({"value": "context.config.least < output.length", "config": {"least": 2}}, "pass", 1.0),
    ],
)
def test_javascript_has_the_options_of_an_assertion(assertion: dict[str, Any], state: str, score: float) -> None:
    row = javascript_row(assertion)
    assert (row["verdict"], row["score"]) == (state, score)


FILES = {
    "plain.cjs": ("module.exports = (output, context) => output === 'say ' + context.vars.word;", ""),
    "named.js": ("module.exports = {check: async (output) => ({pass: true, score: 0.5, reason: 'half'})};", ":check"),
    "module.mjs": ("export default (output) => output.length;", ""),
    "parts.mjs": ("export function check(output) { return output.includes('say'); }", ":check"),
}


@needs_node
@pytest.mark.parametrize(("name", "content", "function"), [(name, *rest) for name, rest in FILES.items()], ids=FILES)
def test_javascript_of_a_file_runs_with_node(name: str, content: str, function: str) -> None:
    Path(name).write_text(content)
    row = javascript_row({"value": f"file://{name}{function}"})
    assert row["verdict"] == "pass", row


@needs_node
def test_parts_of_a_grading_result_are_kept() -> None:
    parts = "[{pass: true, score: 1, reason: 'short'}, {pass: false, score: 0, reason: 'rude'}]"
    row = javascript_row({"value": f"({{pass: false, score: 0.5, reason: 'mixed', componentResults: {parts}}})"})
    assert (row["hits"], row["misses"], row["reasoning"]) == (["short"], ["rude"], "mixed")


def test_javascript_without_node_is_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "cat").symlink_to(str(shutil.which("cat")))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    check = {"type": "javascript", "value": "true"}
    contains = {"type": "contains", "value": "say"}
    in_set = {"type": "assert-set", "threshold": 0.5, "assert": [check, contains]}
    tests = [
        {"assert": [check]},
        {"assert": [check, contains]},
        {"assert": [in_set]},
        {"threshold": 0.1, "assert": [check, contains]},
    ]
    write({"prompts": ["say"], "providers": ["echo"], "tests": tests})
    assert convert() == 0
    code, rows = run()
    assert (code, {row["status"] for row in rows}) == (3, {"skipped"})
    assert all("node is not installed" in row["reasoning"] for row in rows)


@pytest.mark.parametrize(
    "value", ["file://check.ts", "file://missing.js", "output.answer === 1", "output['answer']", "{{ word }} === 1"]
)
def test_javascript_that_cannot_run_here_is_lost(value: str) -> None:
    Path("check.ts").write_text("export default () => true;")
    write(one_test(**{"assert": [{"type": "javascript", "value": value}]}))
    assert convert() == 1
    assert run()[1][0]["status"] == "skipped"


def test_the_list_of_losses_is_also_json(capsys: pytest.CaptureFixture[str]) -> None:
    convert("--json")
    told = json.loads(capsys.readouterr().out)
    assert (told["schema"], told["cases"]) == ("agentv-convert-1", 3)
    found = [(note["line"], note["json_path"], note["is_lost"]) for note in told["notes"]]
    assert found == [(21, "$.tests[0].assert[5].type", True)]
    assert told["unread"] == ["Python in assertions", "checks.py"]


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
    assert "targets:\n  - echo\n  - cat\n" in Path("evals/suite.yaml").read_text()
