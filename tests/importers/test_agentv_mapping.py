"""Every key of AgentV's eval files by row of the mapping: read, read with a warning, or refused by name."""

import json
import re
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

import pytest
from tests.importers.test_agentv_targets import ROWS as TARGET_ROWS

from agentv.engine.plugins.loading import load_specs
from agentv.loading.check.check import check_paths
from agentv.loading.suites.suites import load_suite
from agentv.types.cases import EvalCase, EvaluatorConfig
from agentv.types.errors import EvalFileError
from agentv.types.problems import Problem

SPECS = load_specs()

Place: TypeAlias = Literal["suite", "case", "evaluator"]
Outcome: TypeAlias = Literal["read", "warned", "refused"]


class Row(NamedTuple):
    """One key of the mapping, as YAML in flow style that is put at its place of a small file."""

    name: str
    place: Place
    yaml: str
    outcome: Outcome = "read"


CASE_LISTS = ("tests:", "eval_cases:", "evalcases:", "cases:")

TALK = "mode: conversation\n    turns:"
TURNS = (
    "mode: conversation\n    "
    "turns: [{input: hi, assertions: [Says hi, {type: contains, value: hi}]}, {input: again, expected_output: hi}]"
)

FOURTH = [
    Row("S1 eval_cases", "suite", "eval_cases: [{id: z, criteria: ok, input: hi}]"),
    Row("S2 name", "suite", "name: refunds"),
    Row("S3 schema", "suite", '"$schema": https://example.org/eval.json'),
    Row("S4 governance", "suite", "governance: {tags: [a], owner: b}"),
    Row("S4 metadata", "suite", "metadata: {area: refunds}"),
    Row("S5 about", "suite", "version: 1.0.0"),
    Row("S5 author", "suite", "author: someone"),
    Row("S5 license", "suite", "license: MIT"),
    Row("S5 requires", "suite", 'requires: {agentv: ">=4"}'),
    Row("S5 category", "suite", "category: safety"),
    Row("S6 assertions", "suite", "assertions: [{type: contains, value: hi}]"),
    Row("S6 assert", "suite", "assert: [{type: contains, value: hi}]"),
    Row("S7 input", "suite", "input: [{role: system, content: Be short}]"),
    Row("S7 input_files", "suite", "input_files: [note.txt]"),
    Row("S8 targets", "suite", "execution: {targets: [t, u]}"),
    Row("S8 target with hooks", "suite", "execution: {targets: [{name: t, hooks: {}}]}", "warned"),
    Row("S8 use_target", "suite", "execution: {targets: [{name: label, use_target: t}]}", "warned"),
    Row("S8 targets of a case", "case", "execution: {targets: [t]}"),
    Row("S9 workspace", "suite", "workspace: {template: ., isolation: per_test}"),
    Row("S9 workspace of a case", "case", "workspace: {template: ., isolation: per_test}"),
    Row("S9 shared workspace", "suite", "workspace: {template: .}", "warned"),
    Row("S9 hooks", "suite", "workspace: {isolation: per_test, hooks: {before_each: {command: [ls]}}}"),
    Row("S9 docker", "suite", "workspace: {template: ., isolation: per_test, docker: {image: a}}", "refused"),
    Row("S10 trials", "suite", "execution: {trials: {count: 3}}"),
    Row("S10 mean", "suite", "execution: {trials: {count: 3, strategy: mean}}"),
    Row("S10 interval", "suite", "execution: {trials: {count: 3, strategy: confidence_interval}}", "warned"),
    Row("S10 cost limit", "suite", "execution: {trials: {count: 3, cost_limit_usd: 1}}", "warned"),
    Row("S11 threshold", "suite", "execution: {threshold: 0.6}"),
    Row("S11 workers", "suite", "execution: {workers: 2}"),
    Row("S11 budget", "suite", "execution: {budget_usd: 2}"),
    Row("S11 total budget", "suite", "execution: {total_budget_usd: 2}"),
    Row("S11 cache", "suite", "execution: {cache: true}", "warned"),
    Row("S11 cache_path", "suite", "execution: {cache_path: x}", "warned"),
    Row("S11 fail_on_error", "suite", "execution: {fail_on_error: true}", "warned"),
    Row("S12 preprocessors", "suite", "preprocessors: [{type: xlsx, command: [a]}]", "warned"),
    Row("S13 other keys", "suite", "defaults: {a: 1}", "warned"),
    Row("S target", "suite", "target: t"),
    Row("S evaluator", "suite", "evaluator: llm_judge"),
    Row("S15 variable", "suite", 'description: "${{ HOME }}"'),
    Row("S15 unset variable", "suite", 'description: "${{ NOT_SET_ANYWHERE }}"', "warned"),
    Row("C1 text", "case", "input: hi"),
    Row("C1 object", "case", "input: {a: 1}"),
    Row("C1 message", "case", "input: {role: user, content: hi}"),
    Row("C1 list", "case", "input: [{role: user, content: [hi, {type: file, value: note.txt}]}]"),
    Row("C2 text", "case", "expected_output: hi"),
    Row("C2 object", "case", "expected_output: {a: 1}"),
    Row("C2 messages", "case", "expected_output: [{role: assistant, content: hi}]"),
    Row("C2 list as content", "case", "expected_output: [{a: 1}, {a: 2}]"),
    Row("C5 assertions", "case", "assertions: [{type: contains, value: hi}]"),
    Row("C5 assert", "case", "assert: [{type: contains, value: hi}]"),
    Row("C5 execution", "case", "execution: {evaluators: [{type: contains, value: hi}]}"),
    Row("C5 evaluators", "case", "evaluators: [{type: contains, value: hi}]"),
    Row("C6 skip_defaults", "case", "execution: {skip_defaults: true}"),
    Row("C7 input_files", "case", "input_files: [note.txt]"),
    Row("C8 vars", "case", "vars: {a: {b: 1}}"),
    Row("C9 turns", "case", f"{TURNS}"),
    Row("C9 aggregation", "case", f"{TURNS}\n    aggregation: min"),
    Row("C9 on_turn_failure", "case", f"{TURNS}\n    on_turn_failure: stop"),
    Row("C9 window_size", "case", f"{TURNS}\n    window_size: 2"),
    Row("C9 content of a turn", "case", "mode: conversation\n    turns: [{input: {a: 1}, expected_output: [{b: 2}]}]"),
    Row("C9 parts", "case", f"{TALK} [{{input: [a, {{type: text, value: b}}], expected_output: 5}}]"),
    Row("C9 message", "case", f"{TALK} [{{input: [{{role: user, content: a}}], expected_output: b}}]"),
    Row("C9 vars", "case", f"{TURNS}\n    vars: {{a: 1}}"),
    Row("C9 nothing to check", "case", "mode: conversation\n    turns: [{input: hi}]", "warned"),
    Row("C9 unknown key of a turn", "case", f"{TURNS[:-2]}, wait: 1}}]", "warned"),
    Row("C9 expected_output beside turns", "case", f"{TURNS}\n    expected_output: hi", "warned"),
    Row(
        "C9 several messages in a turn",
        "case",
        "mode: conversation\n    turns: [{input: [{role: user, content: a}, {role: user, content: b}]}]",
        "refused",
    ),
    Row("C9 unknown aggregation", "case", f"{TURNS}\n    aggregation: median", "refused"),
    Row("C9 unknown on_turn_failure", "case", f"{TURNS}\n    on_turn_failure: retry", "refused"),
    Row("C9 mode alone", "case", "mode: conversation", "refused"),
    Row("C9 unknown mode", "case", "mode: monologue", "refused"),
    Row("C9 turns without mode", "case", "turns: [{input: hi}]", "refused"),
    Row("C9 aggregation without mode", "case", "aggregation: mean", "refused"),
    Row("C9 on_turn_failure without mode", "case", "on_turn_failure: stop", "refused"),
    Row("C9 window_size without mode", "case", "window_size: 2", "refused"),
    Row("C10 on_dependency_failure", "case", "on_dependency_failure: run"),
    Row(
        "C10 depends_on",
        "suite",
        "tests: [{id: a, input: hi, criteria: ok, depends_on: [b]}, {id: b, input: hi, criteria: ok}]",
    ),
    Row("C11 description", "case", "description: what it is"),
    Row("C11 note", "case", "note: a note"),
    Row("C11 suite", "case", "suite: refunds"),
    Row("C11 reference_answer", "case", "reference_answer: hi", "warned"),
    Row("C12 target", "case", "execution: {target: t}", "warned"),
    Row("C rubrics", "case", "rubrics: [a, {id: b, outcome: c}]"),
    Row("C threshold", "case", "execution: {threshold: 0.5}"),
    Row("C conversation_id", "case", "conversation_id: c1"),
    Row("C metadata", "case", "metadata: {governance: {tags: [b]}}"),
    Row("unknown key of a case", "case", "critera: typo", "warned"),
    Row("E1 code-grader", "evaluator", "{type: code-grader, command: [cat]}"),
    Row("E1 llm-grader", "evaluator", "{type: llm-grader}"),
    Row("E2 name", "evaluator", "{name: own, type: contains, value: hi}"),
    Row("E3 text", "evaluator", "Says hello"),
    Row("E4 icontains", "evaluator", "{type: icontains, value: HI}"),
    Row("E4 icontains-any", "evaluator", "{type: icontains-any, value: [HI, YO]}"),
    Row("E4 icontains-all", "evaluator", "{type: icontains-all, value: [HI, YO]}"),
    Row("E4 contains-any", "evaluator", "{type: contains-any, value: [hi, yo]}"),
    Row("E4 contains-all", "evaluator", "{type: contains-all, value: [hi, yo]}"),
    Row("E4 starts-with", "evaluator", "{type: starts-with, value: hi}"),
    Row("E4 ends-with", "evaluator", "{type: ends-with, value: hi}"),
    Row("E4b is-json", "evaluator", "{type: is-json}"),
    Row("E5 regex", "evaluator", '{type: regex, value: "h.", flags: i}'),
    Row("E5 contains", "evaluator", "{type: contains, value: hi, weight: 2, negate: true}"),
    Row("E5 equals", "evaluator", "{type: equals, value: hi}"),
    Row("E6 required", "evaluator", "{type: contains, value: hi, required: true}"),
    Row("E6 required number", "evaluator", "{type: contains, value: hi, required: 0.5}"),
    Row("E6 min_score", "evaluator", "{type: contains, value: hi, required: true, min_score: 0.5}"),
    Row("E6 min_score alone", "evaluator", "{type: contains, value: hi, min_score: 0.5}", "warned"),
    Row("E7 command line", "evaluator", '{type: code-grader, command: "cat | cat"}'),
    Row("E7 nothing to run", "evaluator", "{type: code-grader}", "refused"),
    Row("E7 cwd", "evaluator", "{type: code-grader, command: [cat], cwd: .}"),
    Row("E7 script", "evaluator", "{type: code_judge, script: [cat]}"),
    Row("E8 target access", "evaluator", "{type: code-grader, command: [cat], target: {max_calls: 3}}", "warned"),
    Row("E9 keys of a code grader", "evaluator", "{type: code-grader, command: [cat], minimum: 3}"),
    Row("E9 keys of an llm grader", "evaluator", "{type: llm-grader, minimum: 3}", "warned"),
    Row("E12 prompt command", "evaluator", "{type: llm-grader, prompt: {command: [cat], config: {a: 1}}}"),
    Row("E12 prompt script", "evaluator", "{type: llm-grader, prompt: {script: cat}}"),
    Row("E13 max_steps", "evaluator", "{type: llm-grader, max_steps: 3}", "warned"),
    Row("E prompt", "evaluator", '{type: llm-grader, prompt: "{{ input }} {{ output }} {{ expected_output }}"}'),
    Row("E unknown variable", "evaluator", '{type: llm-grader, prompt: "{{ output }} {{ nothing }}"}', "warned"),
    Row("E10 rubrics", "evaluator", "{type: rubrics, criteria: [a, {id: b, outcome: c, weight: 2, required: false}]}"),
    Row("E10 expected_outcome", "evaluator", "{type: rubrics, criteria: [{id: b, expected_outcome: c}]}"),
    Row(
        "E11 ranges as a map",
        "evaluator",
        "{type: rubrics, criteria: [{id: b, outcome: c, score_ranges: {0: no, 5: so, 10: yes}}]}",
    ),
    Row(
        "E11 ranges as a list",
        "evaluator",
        "{type: rubrics, criteria: [{id: b, score_ranges: [{score_range: [0, 4], outcome: no}, "
        "{score_range: [5, 10], outcome: yes}], required_min_score: 7}]}",
    ),
    Row("E11 min_score", "evaluator", "{type: rubrics, criteria: [{id: b, outcome: c, min_score: 0.5}]}"),
    Row("E11 contradiction", "evaluator", "{type: rubrics, criteria: [{id: b, outcome: c, operator: contradiction}]}"),
    Row("E14 composite", "evaluator", "{type: composite, assertions: [{type: contains, value: a}]}"),
    Row("E14 composite assert", "evaluator", "{type: composite, assert: [{type: contains, value: a}]}"),
    Row(
        "E15 aggregator",
        "evaluator",
        "{type: composite, assertions: [{type: contains, value: a}], aggregator: {type: llm-grader}}",
    ),
    Row(
        "E16 threshold",
        "evaluator",
        "{type: composite, assertions: [{type: contains, value: a}], aggregator: {type: threshold, threshold: 0.6}}",
    ),
    Row(
        "E17 path",
        "evaluator",
        '{type: composite, assertions: [{type: contains, value: a}], aggregator: {type: code-grader, path: "cat -"}}',
    ),
    Row("E1b trajectory", "evaluator", "{type: tool-trajectory, mode: any_order, minimums: {a: 1}}"),
    Row("E1b superset", "evaluator", "{type: tool-trajectory, mode: superset, expected: [{tool: a}]}"),
    Row("E1b subset", "evaluator", "{type: tool-trajectory, mode: subset, expected: [{tool: a}]}"),
    Row("E20 args", "evaluator", "{type: tool-trajectory, mode: exact, expected: [{tool: a, args: {b: 1}}]}"),
    Row("E20 args any", "evaluator", "{type: tool-trajectory, mode: exact, expected: [{tool: a, args: any}]}"),
    *(
        Row(
            f"E19 {word}",
            "evaluator",
            f"{{type: tool-trajectory, mode: exact, args_match: {word}, expected: [{{tool: a, args: {{b: 1}}}}]}}",
        )
        for word in ("exact", "ignore", "subset", "superset", "[b]")
    ),
    Row(
        "E22 duration",
        "evaluator",
        "{type: tool-trajectory, mode: exact, expected: [{tool: a, max_duration_ms: 5}]}",
    ),
    Row("E21 output", "evaluator", "{type: tool-trajectory, mode: exact, expected: [{tool: a, output: x}]}"),
    Row(
        "E23 field-accuracy",
        "evaluator",
        "{type: field-accuracy, aggregation: all_or_nothing, fields: [{path: a.b, match: numeric_tolerance, "
        "tolerance: 1, relative: true, weight: 2, required: false}, {path: c, match: date, formats: [DD/MM/YYYY]}]}",
    ),
    Row("E24 latency", "evaluator", "{type: latency, threshold: 100}"),
    Row("E24 cost", "evaluator", "{type: cost, budget: 0.1}"),
    Row("E24 token-usage", "evaluator", "{type: token-usage, max_total: 5, max_input: 3, max_output: 2}"),
    Row(
        "E24 execution-metrics",
        "evaluator",
        "{type: execution-metrics, max_tool_calls: 1, max_llm_calls: 2, max_tokens: 3, max_cost_usd: 1, "
        "max_duration_ms: 9, target_exploration_ratio: 0.5, exploration_tolerance: 0.1}",
    ),
    Row("E25 skill-trigger", "evaluator", "{type: skill-trigger, skill: refunds, should_trigger: false}"),
    Row("E25 trigger-judge of 3.x", "evaluator", "{type: trigger-judge, skill: refunds, should_trigger: true}"),
    Row("E26 own type", "evaluator", "{type: word-count, minimum: 3}", "refused"),
    Row("E27 unknown key", "evaluator", "{type: contains, value: hi, valeu: x}", "warned"),
    Row("E18 include", "evaluator", "{include: polite}"),
    Row("E18 include of nothing", "evaluator", "{include: nothing}", "refused"),
]

FOURTH += [
    Row("S1 tests", "suite", ""),
    Row("S1 evalcases", "suite", "evalcases: [{id: z, criteria: ok, input: hi}]"),
    Row("S1 cases", "suite", "cases: [{id: z, criteria: ok, input: hi}]"),
    Row("S9 workspace of a file", "suite", "workspace: space.yaml", "warned"),
    Row(
        "S9 hooks of all cases",
        "suite",
        "workspace: {isolation: per_test, hooks: {before_all: {command: a}}}",
        "warned",
    ),
    Row("S9 unknown key", "suite", "workspace: {template: ., isolation: per_test, tempate: x}", "warned"),
    Row("S9 commands", "suite", "workspace: {template: ., isolation: per_test, env: {required_commands: [git]}}"),
    Row("S11 on suite and case", "case", "execution: {threshold: 1}"),
    Row("S14 a file", "suite", "tests: more.yaml"),
    Row("S14 a folder", "suite", "tests: ./folder/"),
    Row("S14 entries", "suite", 'tests: ["file://more.yaml", "file://*.jsonl", {id: z, criteria: ok, input: hi}]'),
    Row("C3 criteria", "case", "criteria: be kind"),
    Row("C4 without criteria", "evaluator", "{type: contains, value: hi}"),
    Row("E6 not required", "evaluator", "{type: contains, value: hi, required: false}"),
    Row("E10a criteria as a text", "evaluator", "{type: rubrics, criteria: Says hi}", "warned"),
    Row("E20 input", "evaluator", "{type: tool-trajectory, expected: [{tool: a, input: {b: 1}}]}", "warned"),
    Row("E18 include twice", "evaluator", "{type: composite, assertions: [{include: polite}]}"),
]

SECOND = [
    Row("G2 rubrics with outcome", "case", "rubrics: [{id: b, outcome: c, weight: 2}]"),
    Row("G2 rubrics with ranges", "case", "rubrics: [{id: b, score_ranges: {0: no, 10: yes}, required_min_score: 5}]"),
    Row("G2 an answer that is a number", "case", "expected_messages: [{role: assistant, content: 42}]"),
    Row("G2 cost", "evaluator", "{name: a, type: cost, budget: 1}"),
    Row("G2 token_usage", "evaluator", "{name: a, type: token_usage, max_total: 5}"),
    Row("G2 composite", "evaluator", "{name: a, type: composite, evaluators: [{name: b, type: contains, value: hi}]}"),
    Row("G2 own type", "evaluator", "{name: a, type: word_count}", "refused"),
    Row("G2 conversation", "case", "turns: [{input: hi}]", "refused"),
    Row("G2 evalcases with input", "case", "input: hi"),
    Row("G2 expected_output", "case", "expected_output: hi"),
    Row("G2 outcome", "case", "note: a note"),
    Row("G2 latency", "evaluator", "{name: a, type: latency, threshold: 5}"),
    Row("G2 field_accuracy", "evaluator", "{name: a, type: field_accuracy, fields: [{path: a}]}"),
    Row("G2 code judge config", "evaluator", "{name: a, type: code_judge, script: [cat], minimum: 2}"),
    Row("G2 target access", "evaluator", "{name: a, type: code_judge, script: [cat], target: {}}", "warned"),
    Row("G2 unknown key", "case", "foo: 1", "warned"),
    Row("G2 execution target", "case", "execution: {target: t}", "warned"),
]

FIRST = [
    Row("G1 schema", "suite", '"$schema": https://example.org/eval.json'),
    Row("G1 schema of ours", "suite", '"$schema": agentv-eval-v2'),
    Row("G1 target", "suite", "target: t"),
    Row("G1 dataset", "suite", "dataset: refunds"),
    Row("G1 evaluators of the suite", "suite", "execution: {evaluators: [{name: a, type: llm_judge}]}"),
    Row("G1 expected_outcome", "case", "expected_outcome: ok"),
    Row("G1 expected_messages", "case", "expected_messages: [{role: assistant, content: {a: 1}}]"),
    Row("G1 conversation_id", "case", "conversation_id: x"),
    Row("G1 C11 description", "case", "description: what it is"),
    Row("G1 C11 note", "case", "note: a note"),
    Row("G1 C11 reference_answer", "case", "reference_answer: hi", "warned"),
    Row("G1 C12 target", "case", "execution: {target: t}", "warned"),
    Row("G1 rubrics", "case", "rubrics: [a, {id: b, description: c, weight: 2, required: false}]"),
    Row("G1 code", "evaluator", "{name: a, type: code, script: cat}"),
    Row("G1 code_judge", "evaluator", "{name: a, type: code_judge, script: [cat], cwd: .}"),
    Row("G1 llm_judge", "evaluator", "{name: a, type: llm_judge}"),
    Row("G1 weight", "evaluator", "{name: a, type: contains, value: hi, weight: 3}"),
    Row("G1 E1b in_order", "evaluator", "{name: a, type: tool_trajectory, mode: in_order, expected: [{tool: b}]}"),
    Row(
        "G1 E20 args", "evaluator", "{name: a, type: tool_trajectory, mode: exact, expected: [{tool: b, args: {c: 1}}]}"
    ),
    Row("G1 E20 any", "evaluator", "{name: a, type: tool_trajectory, mode: exact, expected: [{tool: b, args: any}]}"),
    Row("G1 E21 output", "evaluator", "{name: a, type: tool_trajectory, expected: [{tool: b, output: {c: 1}}]}"),
    Row(
        "G1 E17 path",
        "evaluator",
        "{name: a, type: composite, evaluators: [{name: b, type: contains, value: hi}], "
        'aggregator: {type: code_judge, path: "cat -"}}',
    ),
    Row("G1 unknown type", "evaluator", "{name: a, type: expected_messages}", "refused"),
    Row("G1 unknown key", "case", "foo: 1", "refused"),
]

FIFTH = ["extensions: [a]", "environment: {a: b}", "evaluate_options: {}", "prompts: [a]"]


def write(folder: Path, text: str) -> Path:
    (folder / "note.txt").write_text("a file")
    targets = "{name: default, use_target: t}, {name: t, provider: mock}, {name: u, provider: mock}"
    (folder / "targets.yaml").write_text(f"targets: [{targets}]")
    templates = folder / ".agentv" / "templates"
    templates.mkdir(parents=True, exist_ok=True)
    (templates / "polite.yaml").write_text("assertions: [{type: icontains, value: please}, {include: brief}]")
    (folder / "space.yaml").write_text("template: .")
    (folder / "more.yaml").write_text("- {id: x, criteria: ok, input: hi}")
    (folder / "lines.jsonl").write_text('{"id": "y", "criteria": "ok", "input": "hi"}\n')
    (folder / "folder" / "one").mkdir(parents=True, exist_ok=True)
    (folder / "folder" / "one" / "case.yaml").write_text("criteria: ok\ninput: hi\n")
    (templates / "brief.yaml").write_text("assertions: [{name: brief, type: length, max: 100}]")
    path = folder / "suite.eval.yaml"
    path.write_text(text)
    return path


def fourth(row: Row) -> str:
    suite = row.yaml if row.place == "suite" else ""
    tests = "" if row.place == "suite" and row.yaml.startswith(CASE_LISTS) else "tests:\n"
    case = row.yaml if row.place == "case" else ""
    question = "" if case.startswith("input:") else "input: hi"
    evaluators = f"assertions:\n      - {row.yaml}" if row.place == "evaluator" else ""
    wish = "" if case.startswith("criteria:") or row.name.startswith("C4") else "criteria: ok"
    lines = [f"    {line}" for line in (wish, case, question, evaluators) if line]
    cases = "\n".join(["  - id: a", *lines])
    return f"{suite}\n{tests}{cases}\n" if tests else f"{suite}\n"


def second(row: Row) -> str:
    case = row.yaml if row.place == "case" else "conversation_id: x"
    question = "" if case.startswith("input:") else "    input: hi\n"
    evaluators = f"    evaluators:\n      - {row.yaml}\n" if row.place == "evaluator" else ""
    return f"dialect: agentv-2\nevalcases:\n  - id: a\n    outcome: ok\n    {case}\n{question}{evaluators}"


def first(row: Row) -> str:
    suite = row.yaml if row.place == "suite" else ""
    case = row.yaml if row.place == "case" else "conversation_id: x"
    wish = "" if case.startswith("expected_outcome:") else "    outcome: ok\n"
    execution = f"    execution:\n      evaluators:\n        - {row.yaml}\n" if row.place == "evaluator" else ""
    question = "    input_messages: [{role: user, content: hi}]\n"
    return f"{suite}\nevalcases:\n  - id: a\n{wish}    {case}\n{question}{execution}"


def problems_in(folder: Path, text: str) -> tuple[Problem, ...]:
    path = write(folder, text)
    return check_paths([str(path)], cwd=folder, env={}, specs=SPECS).problems


def outcome_of(problems: tuple[Problem, ...]) -> Outcome:
    severities = {problem.severity for problem in problems}
    return "refused" if "error" in severities else "warned" if severities else "read"


@pytest.mark.parametrize("row", FOURTH, ids=lambda row: row.name)
def test_every_key_of_agentv_4_is_read_warned_of_or_refused(row: Row, tmp_path: Path) -> None:
    problems = problems_in(tmp_path, fourth(row))
    assert (outcome_of(problems), [each.render() for each in problems]) == (row.outcome, [e.render() for e in problems])
    for problem in problems:
        assert problem.line > 0
        assert problem.severity == "warning" or problem.message.startswith("AgentV 4: ")


@pytest.mark.parametrize("row", SECOND, ids=lambda row: row.name)
def test_every_key_of_agentv_2_is_read_warned_of_or_refused(row: Row, tmp_path: Path) -> None:
    problems = problems_in(tmp_path, second(row))
    assert (outcome_of(problems), [each.render() for each in problems]) == (row.outcome, [e.render() for e in problems])


@pytest.mark.parametrize("row", FIRST, ids=lambda row: row.name)
def test_every_key_of_agentv_1_is_read_warned_of_or_refused(row: Row, tmp_path: Path) -> None:
    problems = problems_in(tmp_path, first(row))
    assert (outcome_of(problems), [each.render() for each in problems]) == (row.outcome, [e.render() for e in problems])


MAPPING = {
    *(f"S{number}" for number in range(1, 16)),
    *(f"C{number}" for number in range(1, 13)),
    *(f"E{number}" for number in (*range(1, 28), "1b", "4b", "10a")),
    *(f"T{number}" for number in range(17)),
    *("F1", "F2"),
}
"""The rows of the mapping of AgentV's keys to ours, by their numbers."""
ELSEWHERE = {
    "F1": "test_agentv_config.py",
    "F2": "test_agentv_config.py",
    "T0": "test_targets.py",
    "T3": "test_agentv_targets.py: grader_target",
    "T4": "test_agentv_targets.py: use_target",
    "T16": "tests/providers: answer files of command-line targets",
}


def test_every_row_of_the_mapping_has_a_row_here() -> None:
    named = " ".join([*(row.name for row in (*FOURTH, *SECOND, *FIRST)), *(row.name for row in TARGET_ROWS)])
    tested = set(re.findall(r"\b[SCETF]\d+[ab]?\b", named)) | ELSEWHERE.keys()
    assert MAPPING - tested == set()


@pytest.mark.parametrize("key", FIFTH)
def test_files_of_agentv_5_are_refused_by_name(key: str, tmp_path: Path) -> None:
    (problem, *_) = problems_in(tmp_path, f"{key}\ntests: [{{id: a, criteria: ok, input: hi}}]\n")
    assert problem.message == "an AgentV 5 file; 1.5 to 4.42 are read"
    assert problem.line == 1


def test_unknown_targets_of_a_suite_are_named(tmp_path: Path) -> None:
    (problem,) = problems_in(tmp_path, fourth(Row("", "suite", "execution: {targets: [t, nope]}")))
    assert (problem.message, problem.line) == ("there is no target 'nope' in targets.yaml", 1)


def test_suites_in_typescript_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "suite.eval.ts"
    path.write_text("export default {}")
    (problem,) = check_paths([str(path)], cwd=tmp_path, env={}, specs=SPECS).problems
    assert problem.message == "TypeScript suites are not read"


def test_check_names_the_generation_and_counts_keys(tmp_path: Path) -> None:
    path = write(tmp_path, fourth(Row("", "case", "foo: 1\n    reference_answer: x")))
    checked = check_paths([str(path)], cwd=tmp_path, env={}, specs=SPECS)
    assert checked.notes == (f"{path}: AgentV 4 eval file, 2 keys have no meaning here",)


def test_dialect_agentv_makes_a_file_ours_whatever_its_keys(tmp_path: Path) -> None:
    text = "dialect: agentv\nevalcases: [{id: a, expected_outcome: ok, input: hi, assert: []}]\n"
    messages = [problem.message for problem in problems_in(tmp_path, text)]
    assert messages == ["unknown key 'assert'"]


def test_dialect_of_a_generation_settles_the_meaning(tmp_path: Path) -> None:
    path = write(tmp_path, "dialect: agentv-4\nevalcases: [{id: a, expected_outcome: ok, input: hi}]\n")
    checked = check_paths([str(path)], cwd=tmp_path, env={}, specs=SPECS)
    assert (checked.problems, checked.notes) == ((), (f"{path}: AgentV 4 eval file",))


def test_settings_of_ours_are_used_in_files_of_agentv(tmp_path: Path) -> None:
    settings = "value: hi, ignore: [case, punctuation], location: end"
    text = f"tests:\n  - {{id: a, criteria: ok, input: q, assertions: [{{type: equals, {settings}}}]}}"
    assert problems_in(tmp_path, text) == ()
    (case,) = load_suite(write(tmp_path, text), specs=SPECS).cases
    assert isinstance(case, EvalCase)
    (evaluator,) = case.evaluators or ()
    assert isinstance(evaluator, EvaluatorConfig)
    assert evaluator.settings == {"value": "hi", "ignore": ["case", "punctuation"], "location": "end"}


def test_our_own_files_have_no_generation(tmp_path: Path) -> None:
    case = {"id": "a", "expected_outcome": "ok", "input_messages": [{"role": "user", "content": "hi"}]}
    path = write(tmp_path, json.dumps({"evalcases": [case]}))
    checked = check_paths([str(path)], cwd=tmp_path, env={}, specs=SPECS)
    assert (checked.problems, checked.notes) == ((), ())


def test_problems_have_the_path_and_position_of_the_file(tmp_path: Path) -> None:
    text = "tests:\n  - id: a\n    criteria: ok\n    input:\n      - {role: robot, content: hi}\n"
    (problem,) = problems_in(tmp_path, text)
    assert (problem.line, problem.column, problem.json_path) == (5, 16, "$.tests[0].input[0].role")


def test_evals_of_agent_skills_are_read_as_a_suite(tmp_path: Path) -> None:
    (tmp_path / "targets.yaml").write_text("targets: [{name: t, provider: mock, judge: t}]")
    (tmp_path / "data.csv").write_text("a,b")
    case = {
        "id": 1,
        "prompt": "Add the column",
        "files": ["data.csv"],
        "expected_output": "3",
        "assertions": ["Says 3"],
    }
    path = tmp_path / "skills" / "evals.json"
    path.parent.mkdir()
    path.write_text(json.dumps({"skill_name": "csv", "evals": [{**case, "files": ["../data.csv"]}]}, indent=2))
    checked = check_paths(["skills"], cwd=tmp_path, env={}, specs=SPECS, allow_paths=[str(tmp_path)])
    assert (checked.problems, checked.notes) == ((), (f"{path}: Agent Skills evals",))
    (case_read,) = load_suite(path, specs=SPECS, allow_paths=[str(tmp_path)]).cases
    assert isinstance(case_read, EvalCase)
    assert (case_read.id, case_read.expected_outcome, case_read.metadata) == ("1", "3", {"skill_name": "csv"})
    (judge,) = case_read.evaluators or ()
    assert isinstance(judge, EvaluatorConfig)
    assert (judge.type, judge.settings["prompt"]) == ("llm_judge", "Says 3")


def test_problems_of_agent_skills_have_their_own_paths(tmp_path: Path) -> None:
    path = tmp_path / "evals.json"
    path.write_text('{\n  "skill_name": "x",\n  "evals": [\n    {"id": 1, "prompt": 5, "expected_output": "a"}\n  ]\n}')
    (problem,) = check_paths([str(path)], cwd=tmp_path, env={}, specs=SPECS).problems
    assert (problem.line, problem.json_path) == (4, "$.evals[0].prompt")


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
def test_lines_with_a_named_side_file_are_cases_of_agentv(tmp_path: Path, encoding: str) -> None:
    (tmp_path / "targets.yaml").write_text("targets: [{name: t, provider: mock, judge: t}]")
    (tmp_path / "lines.yaml").write_text("name: refunds\nexecution: {target: t}\n")
    path = tmp_path / "lines.jsonl"
    path.write_text('{"id": "a", "criteria": "ok", "input": "hi", "expected_output": "hi", "note": "x"}\n', encoding)
    checked = check_paths([str(path)], cwd=tmp_path, env={}, specs=SPECS)
    assert (checked.problems, checked.notes) == ((), (f"{path}: AgentV 4 eval file",))


def test_rows_of_questions_and_answers_stay_a_dataset(tmp_path: Path) -> None:
    (tmp_path / "targets.yaml").write_text("targets: [{name: t, provider: mock, judge: t}]")
    path = tmp_path / "rows.jsonl"
    path.write_text('{"id": "a", "input": "hi", "expected_output": "hi", "note": "a column"}\n')
    checked = check_paths([str(path)], cwd=tmp_path, env={}, specs=SPECS)
    assert (checked.problems, checked.notes) == ((), ())


def test_a_promptfoo_configuration_is_named(tmp_path: Path) -> None:
    text = "prompts: [a]\nproviders: [openai:x]\ntests: [{vars: {a: b}}]\n"
    path = tmp_path / "suite.yaml"
    path.write_text(text)
    (problem,) = check_paths([str(path)], cwd=tmp_path, env={}, specs=SPECS).problems
    assert problem.message == "a promptfoo configuration, which is not an eval file"
    (problem, *_) = problems_in(tmp_path, text)  # in a file named `*.eval.yaml`
    assert problem.message == "an AgentV 5 file; 1.5 to 4.42 are read"


def test_a_file_of_cases_that_contains_itself_is_refused(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    path = tmp_path / "a.eval.yaml"
    path.write_text("tests:\n  - {id: a, criteria: x, input: hi}\n  - file://a.eval.yaml\n")
    with pytest.raises(EvalFileError, match=r"'a.eval.yaml' contains itself"):
        load_suite(path, specs=SPECS)
