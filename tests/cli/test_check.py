"""`agentv check`: what it prints, what it exits with, what it never does."""

import json
import os
import re
from pathlib import Path

import jsonschema
import pytest
from tests.support.peak import peak_below

from agentv.cli.evals.check import FORMATS, CodeFrames, command, frame_lines
from agentv.cli.main import agentv
from agentv.types.problems import Problem

CASE = "evalcases:\n  - id: a\n    expected_outcome: ok\n    input_messages: [{role: user, content: hi}]\n"


@pytest.fixture(autouse=True)
def _in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".git").mkdir()


def write(name: str, text: str) -> None:
    path = Path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def check(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    code = agentv.main(["check", *arguments], standalone_mode=False)
    return code, capsys.readouterr().out


def test_a_suite_without_problems_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    write("evals/a.yaml", CASE)
    assert check(capsys) == (0, "1 file checked: no problems found\n")


def test_a_gate_can_name_a_turn(capsys: pytest.CaptureFixture[str]) -> None:
    turns = "turns: [{input: hi, evaluators: [{name: has, type: contains, value: x}]}]"
    gates = "gates: [evaluator(turn-1).mean > 0, evaluator(has).mean > 0]"
    write("evals/a.yaml", f"{gates}\nevalcases: [{{id: a, {turns}}}]\n")
    code, out = check(capsys)
    assert code == 4
    assert "unknown evaluator 'has'; known: turn-1." in out
    assert "unknown evaluator 'turn-1'" not in out


def test_gates_on_unknown_names_are_reported_with_their_place(capsys: pytest.CaptureFixture[str]) -> None:
    write("targets.yaml", "targets: [{name: shop, provider: mock, response: x}]")
    judges = "    evaluators: [{name: tone, type: contains, value: x}]\n    tags: [refund]\n"
    gates = "gates: [tag(refnd).mean > 0, evaluator(tone).mean > 0, 'target(shp).mean > 0', dataset(b).mean > 0]\n"
    write("evals/a.yaml", f"{gates}{CASE}{judges}")
    code, out = check(capsys)
    assert code == 4
    for line in (
        "evals/a.yaml:1:9  $.gates[0]  gate 'tag(refnd).mean > 0', column 5: unknown tag 'refnd'; known: refund.",
        "evals/a.yaml:1:56  $.gates[2]  gate 'target(shp).mean > 0', column 8: unknown target 'shp'; known: shop.",
        "evals/a.yaml:1:80  $.gates[3]  gate 'dataset(b).mean > 0', column 9: unknown dataset 'b'; known: a.",
    ):
        assert line in out
    assert "3 errors" in out


@pytest.mark.parametrize("key", ["evaluators", "evaluatorConfigs"])
def test_a_criteria_configuration_is_checked_when_it_is_named(capsys: pytest.CaptureFixture[str], key: str) -> None:
    write("evals/a.yaml", CASE)
    write("evals/score.yaml", f"{key}: [{{type: contains, value: x}}]\ngates: [criterion(contains).mean > 0]\n")
    assert check(capsys, "evals") == (0, "1 file checked: no problems found\n")
    assert check(capsys, "evals/score.yaml") == (0, "1 file checked: no problems found\n")
    write("evals/score.yaml", f"gates: [tag(x).mean > 0]\n{key}: [{{type: contians}}]\nworkers: 3\n")
    code, out = check(capsys, "evals/score.yaml")
    assert code == 4
    for part in (
        "score.yaml:1:9",
        "'tag' cannot be measured here",
        "did you mean 'contains'?",
        "unknown key 'workers'",
    ):
        assert part in out


def test_cases_make_an_eval_file_whatever_stands_before_them(capsys: pytest.CaptureFixture[str]) -> None:
    write("evals/a.yaml", "evaluators: [{name: x, type: contians}]\n" + CASE)
    code, out = check(capsys)
    assert code == 4
    assert "evals/a.yaml:1:30" in out


def test_an_unknown_type_may_be_a_plugins(capsys: pytest.CaptureFixture[str]) -> None:
    write("score.yaml", "evaluators: [{type: mine}]\n")
    assert check(capsys, "score.yaml")[0] == 4
    write(".agentv.yaml", "plugins: [mine.py]\n")
    code, out = check(capsys, "score.yaml")
    assert code == 0
    assert (
        "'mine', unless a plug-in of .agentv.yaml provides it; `agentv plugins --import` lists the known types\n" in out
    )


def test_each_problem_has_its_line_a_code_frame_and_a_suggestion(capsys: pytest.CaptureFixture[str]) -> None:
    write("evals/a.yaml", "execution: {wrokers: 4}\n" + CASE.replace("user", "usr"))
    write(".agentv/targets.yaml", "targets:\n  - {name: a, provider: moc}\n")
    code, out = check(capsys, "evals")
    assert code == 4
    known = out.split("known: ")[1].split(";")[0]
    assert out.replace(known, "KNOWN") == (
        ".agentv/targets.yaml:2:25  $.targets[0].provider  unknown provider 'moc'; known: KNOWN; did you mean 'mock'?\n"
        "     2 |   - {name: a, provider: moc}\n"
        "                                 ^\n"
        "\n"
        "evals/a.yaml:1:13  $.execution.wrokers  unknown key 'wrokers'; allowed: target, targets, evaluators, workers, "
        "trials, timeout_seconds, evaluator_timeout_seconds, pass_score, budget_usd, workspace; did you mean "
        "'workers'?\n"
        "     1 | execution: {wrokers: 4}\n"
        "                     ^\n"
        "\n"
        "evals/a.yaml:5:29  $.evalcases[0].input_messages[0].role  'usr' is not allowed here; allowed: system, user, "
        "assistant, tool; did you mean 'user'?\n"
        "     5 |     input_messages: [{role: usr, content: hi}]\n"
        "                                     ^\n"
        "\n"
        "1 file checked: 3 errors\n"
    )


def test_warnings_alone_pass(capsys: pytest.CaptureFixture[str]) -> None:
    write("evals/a.yaml", "grader: llm_judge\n" + CASE)
    code, out = check(capsys)
    assert code == 0
    assert "evals/a.yaml:1:1  $.grader  warning: `grader` is deprecated" in out
    assert out.endswith("1 file checked: 1 warning\n")


def test_variables_in_questions_are_text_with_one_note_per_file(capsys: pytest.CaptureFixture[str]) -> None:
    case = "  - {id: %s, expected_outcome: ok, input_messages: [{role: user, content: 'Fix %s'}]}\n"
    cases = [("a", "${{ HOME_DIR }}"), ("b", "this Jinja: {{ user.name }}"), ("c", "{{ b }}"), ("d", '{"a": {"b": 1}}')]
    write("evals/a.yaml", "evalcases:\n" + "".join(case % pair for pair in cases))
    code, out = check(capsys)
    assert code == 0
    note = "warning: {{ user.name }} is text here, and in 1 more case: variables are filled in judge prompts only"
    assert f"evals/a.yaml:3:1  $  {note}" in out
    assert "1 warning" in out
    write("evals/b.yaml", "description: b\n")
    line = '{"id": "%s", "expected_outcome": "ok", "input_messages": [{"role": "user", "content": "%s"}]}\n'
    write("evals/b.jsonl", "".join(line % (name, "Who is {{ b }}?") for name in "abc"))
    code, out = check(capsys, "evals/b.jsonl")
    assert code == 0
    assert "evals/b.jsonl:1:1  $  warning: {{ b }} is text here, and in 2 more cases" in out


@pytest.mark.parametrize("prompt", ["Rate {{ anwser }} and {{ response }}", "Rate {{ question }}", "judge.md"])
def test_a_judge_prompt_that_cannot_work_is_an_error_at_its_place(
    prompt: str, capsys: pytest.CaptureFixture[str]
) -> None:
    write("evals/judge.md", "Say 1 for {{ user }} {{ output }}")
    write("evals/a.yaml", f"{CASE}    evaluators:\n      - {{name: tone, type: llm_judge, prompt: '{prompt}'}}\n")
    code, out = check(capsys)
    assert code == 4
    assert "evals/a.yaml:6:47  $.evalcases[0].evaluators[0].prompt  " in out
    assert ("judge.md: unknown variable {{ user }}" in out) is (prompt == "judge.md")


@pytest.mark.parametrize("variable", ["{{tone|upper}}", "{{ tone | upper }}", "{{tone|trim|upper}}"])
def test_a_filter_in_a_judge_prompt_needs_no_blanks(variable: str, capsys: pytest.CaptureFixture[str]) -> None:
    judge = f"{{name: tone, type: llm_judge, prompt: '{variable} {{{{ response }}}}'}}"
    write("evals/a.yaml", f"vars: {{tone: kind}}\n{CASE}    evaluators: [{judge}]\n")
    assert check(capsys) == (0, "1 file checked: no problems found\n")


def test_nothing_to_check_is_no_success(capsys: pytest.CaptureFixture[str]) -> None:
    Path("evals").mkdir()
    assert check(capsys) == (5, "0 files checked: no problems found\n")


def test_json_lines_are_read_to_their_end(capsys: pytest.CaptureFixture[str]) -> None:
    line = {"expected_outcome": "ok", "input_messages": [{"role": "user", "content": "hi"}]}
    write("a.jsonl", "".join(json.dumps({"id": f"c{n}", **line}) + "\n" for n in range(2_000)) + '{"id": "c7"}\n')
    code, out = check(capsys, "a.jsonl")
    assert code == 4
    assert "a.jsonl:2001:1  $  the row has no question" in out


def test_an_unknown_type_is_a_warning_where_plug_ins_are_declared(
    capsys: pytest.CaptureFixture[str],
) -> None:
    write("plugin.py", "raise SystemExit('imported')\n")
    write(".agentv.yaml", "plugins: [plugin.py]\n")
    write("targets.yaml", "targets: [{name: default, provider: ours, anything: 1}]\n")
    write("evals/a.yaml", CASE + "    evaluators: [{name: a, type: ours, anything: 1}, {name: b, type: contians}]\n")
    code, out = check(capsys)
    assert code == 0
    assert re.search(r"warning: unknown evaluator type 'contians'.*; did you mean 'contains'\?\n", out)
    assert "warning: unknown evaluator type 'ours', unless a plug-in of .agentv.yaml provides it" in out
    assert "warning: unknown provider 'ours', unless a plug-in of .agentv.yaml provides it" in out
    Path(".agentv.yaml").unlink()
    code, out = check(capsys)
    assert code == 4


def test_the_target_in_use_is_checked_with_the_environment(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write("evals/a.yaml", "target: used\n" + CASE + RULE)
    targets = "targets:\n  - {name: used, provider: mock, delay_ms: '${{ DELAY_OF_TEST }}'}\n"
    write("targets.yaml", targets + "  - {name: unused, provider: mock, delay_ms: '${{ NEVER_SET }}'}\n")
    code, out = check(capsys)
    assert code == 0
    assert "warning: the variable DELAY_OF_TEST is not set, and target 'used' needs it for 'delay_ms'" in out
    assert "NEVER_SET" not in out
    write(".env", "DELAY_OF_TEST=soon\n")
    code, out = check(capsys)
    assert code == 4
    assert "targets.yaml:2:44  $.targets[0].delay_ms  must be a number, but is a string" in out
    monkeypatch.setenv("DELAY_OF_TEST", "3")
    assert check(capsys) == (0, "1 file checked: no problems found\n")


@pytest.mark.parametrize(
    ("settings", "place"),
    [
        ("provider: python, callable: agent.py:answer", "2:43  $.targets[0].callable"),
        ("provider: replay, file: old.jsonl", "2:39  $.targets[0].file"),
    ],
)
def test_a_missing_file_of_the_used_target_is_reported(
    capsys: pytest.CaptureFixture[str], settings: str, place: str
) -> None:
    write("evals/a.yaml", "execution: {target: t}\n" + CASE)
    write(".agentv/targets.yaml", f"targets:\n  - {{name: t, {settings}}}\n")
    code, out = check(capsys, "evals")
    assert code == 4
    assert f".agentv/targets.yaml:{place}  there is no file {Path.cwd()}/.agentv/" in out


def test_an_unknown_target_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    write("evals/a.yaml", "execution: {target: agnet}\n" + CASE)
    write("targets.yaml", "targets: [{name: agent, provider: mock}]\n")
    code, out = check(capsys)
    assert code == 4
    assert (
        "evals/a.yaml:1:21  $.execution.target  there is no target 'agnet' in targets.yaml; known: agent; "
        "did you mean 'agent'?" in out
    )


@pytest.mark.parametrize(
    ("evaluator", "at"),
    [
        ("{name: tone, type: llm_judge, judge: agnet}", "judge"),
        ("{name: tone, type: llm_judge, judges: [agent, agnet]}", "judges[1]"),
        (
            "{name: all, type: composite, evaluators: [{name: tone, type: llm_judge, judge: agnet}]}",
            "evaluators[0].judge",
        ),
    ],
)
def test_an_unknown_judge_of_an_evaluator_is_reported(
    capsys: pytest.CaptureFixture[str], evaluator: str, at: str
) -> None:
    write("targets.yaml", "targets: [{name: agent, provider: mock}]\n")
    write("evals/a.yaml", f"target: agent\n{CASE}    evaluators: [{evaluator}]\n")
    code, out = check(capsys)
    assert code == 4
    assert f"evaluators[0].{at}  there is no target 'agnet' in targets.yaml; known: agent; did you mean" in out


def test_a_judge_may_be_a_model_of_a_provider(capsys: pytest.CaptureFixture[str]) -> None:
    write("targets.yaml", "targets: [{name: agent, provider: mock}]\n")
    judges = "judges: ['openai:gpt-5-mini', {provider: mock, response: '{}'}]"
    write("evals/a.yaml", f"target: agent\n{CASE}    evaluators: [{{name: tone, type: llm_judge, {judges}}}]\n")
    assert check(capsys)[0] == 0


@pytest.mark.parametrize(
    "judge",
    ["judge: agnet\nevaluators: [{name: a, type: llm_judge}]", "evaluators: [{name: a, type: tone, judge: agnet}]"],
)
def test_an_unknown_judge_in_a_configuration_of_score_is_reported(
    capsys: pytest.CaptureFixture[str], judge: str
) -> None:
    write("targets.yaml", "targets: [{name: agent, provider: mock}]\n")
    write("scores.yaml", f"criteria: [{{name: a}}]\n{judge}\n")
    code, out = check(capsys, "scores.yaml")
    assert code == 4
    assert "judge  there is no target 'agnet' in targets.yaml; known: agent; did you mean 'agent'?" in out


def test_targets_and_project_files_may_be_named_themselves(capsys: pytest.CaptureFixture[str]) -> None:
    write("targets.yaml", "targets: [{name: agent}]\n")
    write(".agentv.yaml", "allow: 1\n")
    write(".agentv/criteria.yaml", "criterion: []\n")
    code, out = check(capsys, "targets.yaml", ".agentv.yaml", ".agentv/criteria.yaml")
    assert code == 4
    assert "targets.yaml:1:11  $.targets[0]  the key 'provider' is missing" in out
    assert ".agentv.yaml:1:1  $.allow  unknown key 'allow'" in out
    assert ".agentv/criteria.yaml:1:1  $.criterion  unknown key 'criterion'" in out


def test_validate_is_the_same_command(capsys: pytest.CaptureFixture[str]) -> None:
    write("evals/a.yaml", CASE)
    assert agentv.main(["validate"], standalone_mode=False) == 0
    assert capsys.readouterr().out == "1 file checked: no problems found\n"


def test_every_format_is_offered() -> None:
    (option,) = (parameter for parameter in command.params if parameter.name == "format_")
    assert list(getattr(option.type, "choices", ())) == list(FORMATS)


BROKEN = CASE.replace("user", "usr")


def test_the_json_format_has_a_versioned_shape(capsys: pytest.CaptureFixture[str]) -> None:
    write("evals/a.yaml", BROKEN)
    code, out = check(capsys, "--json")
    assert code == 4
    assert json.loads(out) == {
        "schema": "agentv-check-1",
        "files": 1,
        "errors": 1,
        "warnings": 0,
        "problems": [
            {
                "path": "evals/a.yaml",
                "line": 4,
                "column": 29,
                "json_path": "$.evalcases[0].input_messages[0].role",
                "severity": "error",
                "message": "'usr' is not allowed here",
                "allowed": "allowed: system, user, assistant, tool",
                "suggestion": "user",
            }
        ],
    }
    assert check(capsys, "--format", "json")[1] == out


def test_the_github_format_annotates_lines(capsys: pytest.CaptureFixture[str]) -> None:
    write("evals/a,b.yaml", BROKEN.replace("usr", "100%"))
    _, out = check(capsys, "--format", "github")
    assert out == (
        "::error file=evals/a%2Cb.yaml,line=4,col=29::$.evalcases[0].input_messages[0].role '100%25' is not allowed "
        "here; allowed: system, user, assistant, tool\n"
        "1 file checked: 1 error\n"
    )


def test_the_sarif_format_has_rules_and_regions(capsys: pytest.CaptureFixture[str]) -> None:
    write("evals/a b.yaml", BROKEN)
    _, out = check(capsys, "--format", "sarif")
    log = json.loads(out)
    jsonschema.validate(
        log, {"required": ["$schema", "version", "runs"], "properties": {"version": {"const": "2.1.0"}}}
    )
    (result,) = log["runs"][0]["results"]
    assert result["locations"][0]["physicalLocation"] == {
        "artifactLocation": {"uri": "evals/a%20b.yaml"},
        "region": {"startLine": 4, "startColumn": 29},
    }
    assert result["ruleId"] in {rule["id"] for rule in log["runs"][0]["tool"]["driver"]["rules"]}


def test_what_stands_in_a_file_cannot_steer_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    hostile = 'description: "x"\n"\\e[31mke\\ny\\u202e": 1\n' + CASE.replace(
        "id: a", "id: a # \x9b31m \u202e end"
    ).replace("user", "\u200bus\u202er")
    write("evals/a.yaml", hostile)
    for format_ in FORMATS:
        _, out = check(capsys, "--format", format_)
        assert not {"\x1b", "\x9b", "\u202e", "\x07"} & set(out), format_


def test_secrets_stay_out_of_code_frames(capsys: pytest.CaptureFixture[str]) -> None:
    write("evals/a.yaml", CASE)
    write("targets.yaml", "targets:\n  - {name: a, provider: openai, model: m, api_key: sk-12345678}\n")
    write(".env", "sk-in-env-file\n")
    code, out = check(capsys)
    assert code == 4
    assert ".env:1:1  $  this line sets no variable" in out
    assert "     2 |   - {name: a, provider: openai, model: m, api_key: ***\n" in out
    assert "sk-" not in out


@pytest.mark.parametrize(
    ("source", "column", "lines"),
    [
        ("abc", 2, ["     3 | abc", "          ^"]),
        ("\tabc", 2, ["     3 |  abc", "          ^"]),
        ("漢字x", 3, ["     3 | 漢字x", "             ^"]),
        ("a\x1b[0mb", 6, ["     3 | a\ufffd[0mb", "              ^"]),
        ("x" * 90 + "END" + "y" * 90, 91, ["     3 | …" + "x" * 60 + "END" + "y" * 37 + "…", " " * 70 + "^"]),
    ],
)
def test_a_code_frame_points_at_the_column(source: str, column: int, lines: list[str]) -> None:
    assert frame_lines(source, 3, column) == lines


@pytest.mark.parametrize("name", ["evals/a.yaml", "evals/a.jsonl", "targets.yaml"])
@pytest.mark.parametrize("device", ["pipe", "/dev/zero"])
def test_a_pipe_or_a_device_is_refused_and_not_read(name: str, device: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("evals").mkdir()
    if device == "pipe":
        os.mkfifo(name)
    else:
        Path(name).symlink_to(device)
    assert check(capsys, name) == (4, f"{name}  $  is not a regular file\n\n1 file checked: 1 error\n")


@pytest.mark.parametrize(("name", "message"), [("a.yaml", "is larger than 64 MiB; put the cases"), ("a.jsonl", "line")])
def test_a_huge_file_is_refused_with_little_memory(name: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    with Path(name).open("wb") as file:
        file.truncate(4 * 2**30)
    with peak_below(200):
        code, out = check(capsys, name)
    assert code == 4
    assert f"{name}:1:1" in out
    assert message in out


def test_patterns_with_too_many_repeats_are_reported_with_their_place(capsys: pytest.CaptureFixture[str]) -> None:
    write(".agentv.yaml", "redact: ['a{99999999}']\n")
    rules = "    evaluators:\n      - {name: r, type: regex, pattern: '(?:a{9999}){9999}'}\n"
    schema = "      - {name: s, type: is_json, schema: {pattern: 'a{99999999}'}}\n"
    write("evals/a.yaml", f"{CASE}{rules}{schema}")
    code, out = check(capsys)
    assert code == 4
    assert ".agentv.yaml:1:10  $.redact[0]  is too large" in out
    assert 'evals/a.yaml:6:41  $.evalcases[0].evaluators[0].pattern  `pattern` "(?:a{9999}){9999}" is too large' in out
    assert (
        "evals/a.yaml:7:42  $.evalcases[0].evaluators[1].schema  `schema` is not a valid JSON Schema: $: the pattern"
        in out
    )


def test_a_frame_is_made_from_the_first_mebibytes_only() -> None:
    write("a.jsonl", "{}\n" * (2 * 2**20))
    frames = CodeFrames(Path())
    assert frames.frame(Problem("a.jsonl", "x", 1_000_000, 1)) == ["1000000 | {}", "          ^"]
    assert frames.frame(Problem("a.jsonl", "x", 2_000_000, 1)) == []


FAULTY = """\
targets:
  - {name: shop, provider: mock, response: x}
  - {name: other, provider: mock, respones: x}
  - {name: broken}
"""


def test_faults_of_targets_that_the_suite_does_not_use_are_warnings(capsys: pytest.CaptureFixture[str]) -> None:
    write("targets.yaml", FAULTY)
    write("evals/a.yaml", f"target: shop\n{CASE}")

    code, out = check(capsys)

    assert code == 0
    assert "targets.yaml:3:35  $.targets[1].respones  warning: unknown key 'respones'" in out
    assert "targets.yaml:4:5  $.targets[2]  warning: the key 'provider' is missing" in out


@pytest.mark.parametrize("used", ["target: other", "execution: {target: other}"])
def test_faults_of_the_used_target_are_errors(capsys: pytest.CaptureFixture[str], used: str) -> None:
    write("targets.yaml", FAULTY)
    write("evals/a.yaml", f"{used}\n{CASE}")

    code, out = check(capsys)

    assert code == 4
    assert "targets.yaml:3:35  $.targets[1].respones  unknown key 'respones'" in out


def test_faults_of_each_target_that_a_suite_lists_are_errors(capsys: pytest.CaptureFixture[str]) -> None:
    write("targets.yaml", FAULTY)
    write("evals/a.yaml", "execution: {targets: [shop, other]}\ntests: [{id: a, criteria: ok, input: hi}]\n")

    code, out = check(capsys)

    assert code == 4
    assert "targets.yaml:3:35  $.targets[1].respones  unknown key 'respones'" in out


def test_faults_of_a_judge_that_an_evaluator_names_are_errors(capsys: pytest.CaptureFixture[str]) -> None:
    write("targets.yaml", FAULTY)
    judge = "    evaluators: [{name: tone, type: llm_judge, judge_target: other}]\n"
    write("evals/a.yaml", f"target: shop\n{CASE}{judge}")

    assert check(capsys)[0] == 4


def test_a_targets_file_that_is_named_itself_is_checked_whole(capsys: pytest.CaptureFixture[str]) -> None:
    write("targets.yaml", FAULTY)

    assert check(capsys, "targets.yaml")[0] == 4


def test_submodules_of_a_local_repository_are_a_warning_with_its_place(capsys: pytest.CaptureFixture[str]) -> None:
    write("shop/.git/HEAD", "ref: refs/heads/main\n")
    write("shop/.gitmodules", '[submodule "lib"]\n\tpath = vendor/lib\n\turl = ../lib\n')
    write("evals/a.yaml", f"workspace:\n  git: ../shop\n{CASE}")
    _, said = check(capsys)
    assert "evals/a.yaml:2:8  $.workspace.git  warning: the submodules of ../shop are not fetched: vendor/lib" in said
    write("evals/a.yaml", f"workspace:\n  git: ../shop\n  repos: [{{path: vendor/lib, git: ../lib}}]\n{CASE}")
    write("lib/.git/HEAD", "ref: refs/heads/main\n")
    assert "submodules" not in check(capsys)[1]


@pytest.mark.parametrize(
    ("cases", "command", "is_named"), [(50, "python3", True), (49, "python3", False), (50, "node", False)]
)
def test_many_starts_of_python_for_a_code_judge_are_named(
    cases: int, command: str, is_named: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    case = "  - {{id: c{}, expected_outcome: x, input_messages: [{{role: user, content: q}}]}}\n"
    judge = f"evaluators: [{{name: runs, type: code_judge, script: [{command}, judge.py]}}]\n"
    Path("suite.yaml").write_text(judge + "evalcases:\n" + "".join(case.format(number) for number in range(cases)))
    agentv.main(["check", "suite.yaml"], standalone_mode=False)
    assert ("code_judge 'runs' starts Python for each of 50 cases" in capsys.readouterr().out) == is_named


TWO_TARGETS = "targets: [{name: a, provider: mock, response: hi}, {name: b, provider: mock, response: hi}]\n"
RULE = "    evaluators: [{name: c, type: contains, value: hi}]\n"


def test_a_file_that_chooses_none_of_several_targets_is_warned_of(capsys: pytest.CaptureFixture[str]) -> None:
    write("targets.yaml", TWO_TARGETS)
    write("evals/a.yaml", CASE + RULE)
    code, out = check(capsys)
    chosen = "no target is chosen; name one with --target or `target:` in the eval file. Known targets: a, b"
    assert (code, f"evals/a.yaml  $  warning: {chosen}\n" in out) == (0, True), out
    for text, targets in (("target: b\n", TWO_TARGETS), ("", TWO_TARGETS.replace("name: b", "name: default"))):
        write("targets.yaml", targets)
        write("evals/a.yaml", text + CASE + RULE)
        assert check(capsys) == (0, "1 file checked: no problems found\n")
