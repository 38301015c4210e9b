"""Valid eval files: the result of every key."""

import hashlib
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.loading.specs import SPECS

from agentv.engine.plugins.loading import load_specs, load_specs_without
from agentv.evaluators import EVALUATORS
from agentv.loading.suites.suites import load_suite
from agentv.types.cases import EvalCase, EvalSuite, EvaluatorConfig, RubricItem
from agentv.types.errors import EvalFileError
from agentv.types.messages import FilePart, TextPart, ToolCall
from agentv.types.scales import EvaluationCriteria

GOOD = Path(__file__).parent / "good"
CASE = "evalcases:\n  - id: a\n    expected_outcome: ok\n    input_messages: [{role: user, content: hi}]\n"


@pytest.fixture(scope="module")
def suite() -> EvalSuite:
    return load_suite(GOOD / "evals" / "everything.yaml", specs=SPECS)


@pytest.fixture(scope="module")
def cases(suite: EvalSuite) -> list[EvalCase]:
    return [case for case in suite.cases if isinstance(case, EvalCase)]


def load(tmp_path: Path, text: str) -> EvalSuite:
    path = tmp_path / "suite.yaml"
    path.write_text(text)
    return load_suite(path, specs=SPECS)


def only_case(tmp_path: Path, text: str) -> EvalCase:
    (case,) = load(tmp_path, text).cases
    assert isinstance(case, EvalCase)
    return case


def test_the_top_level(suite: EvalSuite) -> None:
    assert suite.path.endswith("tests/loading/good/evals/everything.yaml")
    assert (suite.dataset, suite.description, suite.tags, suite.target) == (
        "refunds",
        "Refund service",
        ("smoke",),
        "agent",
    )
    assert (suite.workers, suite.trials, suite.timeout_s, suite.evaluator_timeout_s) == (4, 3, 120.0, 60.5)
    assert suite.gates == ("pass_rate >= 90%",)
    assert (suite.confirm_reruns, suite.cluster) == (3, "metadata.difficulty")
    assert suite.evaluator == "llm_judge"
    assert suite.workspace == {"git": ".", "ref": "main", "setup": "make", "teardown": "true", "keep": "failed"}
    assert suite.sha256 == hashlib.sha256((GOOD / "evals" / "everything.yaml").read_bytes()).hexdigest()
    assert suite.cases.count == 3
    assert suite.warnings == ()


def test_criteria(suite: EvalSuite) -> None:
    assert suite.criteria == (
        EvaluationCriteria("tone", "Friendly", "likert5", 2.0),
        EvaluationCriteria("length", "", "labels", 1.0, labels=("long", "fine", "short")),
        EvaluationCriteria("price", "", "numeric", 1.0, min=0.0, max=10.0),
    )


def test_evaluators_with_anchors_and_merge_keys(suite: EvalSuite, cases: list[EvalCase]) -> None:
    tone = EvaluatorConfig("tone", "llm_judge", weight=0.5, criterion="tone", base_dir=str(GOOD / "evals"))
    again = EvaluatorConfig(
        "again", "llm_judge", weight=0.5, negate=True, criterion="tone", base_dir=str(GOOD / "evals")
    )
    assert suite.evaluators == cases[0].evaluators == (tone, again)


def test_messages(cases: list[EvalCase]) -> None:
    system, user, tool = cases[0].input_messages
    assert (system.role, system.content) == ("system", "You are the refund service.")
    assert (user.name, user.timestamp, user.metadata) == ("Ada", "2026-01-01T00:00:00Z", {"channel": "chat"})
    assert isinstance(user.content, tuple)
    text, order, style = user.content
    assert text == TextPart("Please review")
    assert isinstance(order, FilePart)
    assert isinstance(style, FilePart)
    assert (order.path, order.text, order.is_guideline) == ("./order.json", '{"id": 7}\n', False)
    assert (style.path, style.text, style.is_guideline) == ("prompts/style.md", "Be brief.\n", True)
    assert (tool.tool_call_id, tool.content) == ("call-1", {"found": True, "order": [7, 15, 1000.0]})


@pytest.mark.parametrize(("role", "ours"), [("developer", "system"), ("function", "tool"), ("data", "system")])
def test_roles_of_other_programs_are_ours(tmp_path: Path, role: str, ours: str) -> None:
    case = only_case(tmp_path, CASE.replace("[{role: user", f"[{{role: {role}, content: x}}, {{role: user"))
    assert [message.role for message in case.input_messages] == [ours, "user"]


def test_a_case_may_have_its_own_deadline(tmp_path: Path) -> None:
    text = CASE.replace("expected_outcome", "execution: {timeout_seconds: 2.5}\n    expected_outcome")
    assert only_case(tmp_path, text).timeout_s == 2.5
    with pytest.raises(EvalFileError, match="'timeout_seconds' belongs under `execution:`"):
        load(tmp_path, CASE.replace("expected_outcome", "timeout_seconds: 2.5\n    expected_outcome"))


def test_expected_messages_may_be_tool_calls_alone(cases: list[EvalCase]) -> None:
    call, answer = cases[0].expected_messages
    assert call.content is None
    assert call.tool_calls == (ToolCall("lookup_order", {"id": 7}, "found", "call-1", "now"),)
    assert answer.content == "You get your money back."


def test_the_rest_of_a_case(cases: list[EvalCase]) -> None:
    case = cases[0]
    assert (case.id, case.expected_outcome, case.conversation_id) == (
        "refund-1",
        "Refund granted within policy",
        "c-17",
    )
    assert (case.tags, case.trials, case.workspace) == (("refund",), 5, {"template": "./app"})
    assert case.metadata == {"difficulty": "hard", "since": "2024-01-31", "on": "no"}
    assert case.criteria == (EvaluationCriteria("tone"),)
    assert case.rubrics == (
        RubricItem("rubric-1", "Mentions the 30-day rule"),
        RubricItem("amount", "States the amount", 2.0, required=True, scale="likert5"),
    )
    assert case.location is not None
    assert case.location.line == 28


def test_evaluator_settings_stay_as_written_and_types_become_canonical(cases: list[EvalCase]) -> None:
    assert cases[1].evaluators is not None
    amount, pattern, both = cases[1].evaluators
    assert isinstance(amount, EvaluatorConfig)
    assert isinstance(pattern, EvaluatorConfig)
    assert isinstance(both, EvaluatorConfig)
    assert (amount.settings, amount.required) == ({"value": ["30", "thirty"], "expect": "all"}, 0.5)
    assert (pattern.settings, pattern.timeout_s) == ({"pattern": "\\d+"}, 2.0)
    assert both.type == "composite"
    assert both.settings["aggregator"] == {"type": "threshold", "atLeast": 1}


def test_a_common_key_that_a_type_knows_too_stays_among_its_settings(tmp_path: Path) -> None:
    text = CASE + "    evaluators: [{name: a, type: code, script: ./a.sh, timeoutSeconds: 5}]\n"
    case = only_case(tmp_path, text)
    assert case.evaluators == (
        EvaluatorConfig(
            "a",
            "code_judge",
            {"script": "./a.sh", "timeoutSeconds": 5},
            timeout_s=5.0,
            base_dir=str(tmp_path.resolve()),
        ),
    )


def test_aliases_of_keys(tmp_path: Path) -> None:
    text = "cases:\n  - {id: a, outcome: ok, inputMessages: [{role: user, content: hi}]}\ntarget: old\n"
    suite = load(tmp_path, text)
    assert suite.target == "old"
    assert [case.id for case in suite.cases] == ["a"]


def test_snake_case_wins_over_its_twin_and_a_name_over_its_alias(tmp_path: Path) -> None:
    case = only_case(tmp_path, CASE + "    expectedOutcome: twin\n    outcome: alias\n    conversationId: twin\n")
    assert (case.expected_outcome, case.conversation_id) == ("ok", "twin")


def test_the_prds_names_of_common_keys(tmp_path: Path) -> None:
    keys = "criterionName: a, sourceField: prompt, isRequired: true"
    text = "criteria: [{name: a}]\n" + CASE + f"    evaluators: [{{name: e, type: llm_judge, {keys}}}]\n"
    case = only_case(tmp_path, text)
    assert case.evaluators is not None
    (config,) = case.evaluators
    assert isinstance(config, EvaluatorConfig)
    assert (config.criterion, config.source, config.required) == ("a", "prompt", True)


def test_a_list_under_execution_comes_before_the_one_beside_it(tmp_path: Path) -> None:
    text = CASE + "    evaluators: [{name: beside, type: llm_judge}]\n    execution: {evaluators: []}\n"
    assert only_case(tmp_path, text).evaluators == ()
    assert only_case(tmp_path, CASE).evaluators is None


SAID = "input_messages: [{role: user, content: When?}], expected_messages: [{role: assistant, content: In 30 days}]"


def test_similarity_of_meaning_as_the_only_evaluator_is_warned_of(tmp_path: Path) -> None:
    alone = "evaluators: [{name: meaning, type: semantic_similarity}]"
    beside = "evaluators: [{name: meaning, type: semantic_similarity}, {name: fact, type: contains, value: '30'}]"
    path = tmp_path / "suite.yaml"
    path.write_text(f"evalcases:\n  - {{id: a, {SAID}, {alone}}}\n  - {{id: b, {SAID}, {beside}}}\n", "utf-8")
    (warning,) = load_suite(path, specs=replace(SPECS, evaluators=EVALUATORS)).warnings
    assert (warning.line, warning.json_path) == (2, "$.evalcases[0].evaluators[0]")
    assert "sees neither a negation nor a changed number" in warning.render()


def test_grader_is_read_with_one_warning_in_each_file(tmp_path: Path) -> None:
    suite = load(tmp_path, "grader: llm_judge\n" + CASE + "    grader: llm_judge\n")
    (case,) = suite.cases
    assert isinstance(case, EvalCase)
    assert (case.grader, case.evaluator, suite.evaluator) == ("llm_judge", None, "llm_judge")
    (warning,) = suite.warnings
    assert (warning.line, warning.severity) == (1, "warning")
    assert "`grader` is deprecated; write `evaluator` instead" in warning.render()


def test_evaluator_wins_over_grader(tmp_path: Path) -> None:
    case = only_case(tmp_path, CASE + "    grader: llm_judge\n    evaluator: llm_judge\n")
    assert (case.evaluator, case.grader) == ("llm_judge", None)


@pytest.mark.parametrize("losing", ["nosuch", "7", "{type: x}", "''"])
def test_a_grader_that_evaluator_replaces_is_not_validated(tmp_path: Path, losing: str) -> None:
    case = only_case(tmp_path, CASE + f"    grader: {losing}\n    evaluator: llm_judge\n")
    assert (case.evaluator, case.grader) == ("llm_judge", None)
    with pytest.raises(EvalFileError, match=r"\$\.evalcases\[0\]\.grader"):
        only_case(tmp_path, CASE + f"    grader: {losing}\n")


def test_an_unknown_scale_close_to_a_known_one_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(EvalFileError, match="'likert-5' is unknown; did you mean 'likert5'"):
        load(tmp_path, "criteria: [{name: a, scale: likert-5}, {name: b, scale: stars}]\n" + CASE)


def test_cost_is_not_read_from_files(tmp_path: Path) -> None:
    suite = load(tmp_path, CASE + "    evaluators: [{name: a, type: llm_judge, cost: free}]\n")
    assert [warning.json_path for warning in suite.warnings] == ["$.evalcases[0].evaluators[0].cost"]


def test_what_many_cases_share_by_an_alias_is_wrong_once(tmp_path: Path) -> None:
    text = "execution:\n  evaluators: &e [{name: a, type: llm_juge}]\n" + CASE + "    evaluators: *e\n"
    with pytest.raises(EvalFileError) as caught:
        load(tmp_path, text)
    assert [(problem.line, problem.column) for problem in caught.value.problems] == [(2, 35)]


def test_problems_of_several_files_are_reported_at_once(tmp_path: Path) -> None:
    (tmp_path / ".agentv.yaml").write_text("allow_outsid: true\n")
    with pytest.raises(EvalFileError) as caught:
        load(tmp_path, "tagz: []\n" + CASE)
    assert [Path(problem.path).name for problem in caught.value.problems] == [".agentv.yaml", "suite.yaml"]


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"a: 1\nb: caf\xe9\n", "suite.yaml:2:7  $  byte 0xe9 at offset 11 is not UTF-8; save the file as UTF-8"),
        (b"\xff\xfea\x00", "suite.yaml:1:1  $  is UTF-16 text; save it as UTF-8"),
        (b"\xef\xbb\xbf", "suite.yaml:1:1  $  the file is empty"),
    ],
)
def test_bytes_that_are_no_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, data: bytes, said: str) -> None:
    monkeypatch.chdir(tmp_path)
    Path("suite.yaml").write_bytes(data)
    with pytest.raises(EvalFileError) as caught:
        load_suite("suite.yaml", specs=SPECS)
    assert str(caught.value) == said


def test_a_byte_order_mark_and_windows_line_ends_do_not_matter(tmp_path: Path) -> None:
    path = tmp_path / "suite.yaml"
    path.write_bytes(b"\xef\xbb\xbf" + CASE.replace("\n", "\r\n").encode())
    assert [case.id for case in load_suite(path, specs=SPECS).cases] == ["a"]


def test_a_missing_or_irregular_file_is_reported(tmp_path: Path) -> None:
    with pytest.raises(EvalFileError, match="there is no such file"):
        load_suite(tmp_path / "none.yaml", specs=SPECS)
    with pytest.raises(EvalFileError, match="is not a regular file"):
        load_suite(tmp_path, specs=SPECS)


def test_cases_with_equal_evaluators_share_one_list(tmp_path: Path) -> None:
    rest = "expected_outcome: ok, input_messages: [{{role: user, content: hi}}]"
    case = "  - {{id: {id}, " + rest + ", evaluators: [{evaluator}]}}\n"
    equal, other = "{name: n, type: contains, value: a}", "{name: n, type: contains, value: b}"
    listed = (("one", equal), ("two", equal), ("three", other))
    text = "evalcases:\n" + "".join(case.format(id=id_, evaluator=evaluator) for id_, evaluator in listed)
    first, second, third = (each.evaluators for each in load(tmp_path, text).cases if isinstance(each, EvalCase))
    assert first is second
    assert first is not third
    assert first != third


TURNS = """
execution: {timeout_seconds: 9}
vars: {order: "1001"}
evalcases:
  - id: a
    input_messages: [{role: system, content: Be short}]
    turns:
      - input: Order {{ order }}
        expected_output: "Paid: {{ order }}"
      - input: [{type: text, value: And now?}]
        expected_outcome: says when
        rubrics: [Names a day]
        evaluators: [{name: has, type: contains, value: "{{ order }}"}]
      - input: Thanks
    execution: {turn_aggregate: min, on_turn_failure: stop, turn_window: 2}
"""


def test_turns_of_a_conversation(tmp_path: Path) -> None:
    case = only_case(tmp_path, TURNS)
    first, second, third = case.turns
    assert (first.input.content, [each.content for each in first.expected_messages]) == ("Order 1001", ["Paid: 1001"])
    assert (second.input.content, second.expected_outcome) == ((TextPart("And now?"),), "says when")
    assert [item.description for item in second.rubrics] == ["Names a day"]
    (judge,) = second.evaluators
    assert isinstance(judge, EvaluatorConfig)
    assert (judge.type, judge.settings) == ("contains", {"value": "1001"})
    assert (third.expected_messages, third.evaluators) == ((), ())
    assert (case.turn_rules.aggregate, case.turn_rules.on_failure, case.turn_rules.window) == ("min", "stop", 2)
    assert [message.content for message in case.input_messages] == ["Be short"]


def test_a_case_with_turns_needs_no_messages_before_them(tmp_path: Path) -> None:
    case = only_case(tmp_path, "evalcases: [{id: a, turns: [{input: hi, expected: yo}]}]")
    assert (case.input_messages, len(case.turns)) == ((), 1)


@pytest.mark.parametrize(
    ("turns", "problem"),
    [
        ("[{input: hi}]", "no turn of the case has anything to check, and the case has no evaluators"),
        ("[{input: 5, expected: x}]", "must be a string, a list of parts or an object, but is a number"),
        ("[{input: hi, evaluators: [{name: a, type: contians, value: x}]}]", "unknown evaluator type 'contians'"),
        ("[{input: hi, evaluators: [{name: a, type: llm_judge}]}]", "the key 'expected_outcome' is missing"),
    ],
)
def test_wrong_turns_are_refused_with_their_place(turns: str, problem: str, tmp_path: Path) -> None:
    with pytest.raises(EvalFileError) as raised:
        load(tmp_path, f"evalcases:\n  - id: a\n    turns: {turns}\n")
    (found,) = raised.value.problems
    assert problem in found.message
    assert found.line == 3
    assert found.json_path.startswith("$.evalcases[0].turns")


OF_CRITERION = "evaluators: [{name: a, type: contains, value: x, criterion: c}]"
NO_WEIGHT = "evaluators: [{name: a, type: contains, value: x, weight: 0}]"


@pytest.mark.parametrize(
    ("text", "place"),
    [
        (f"evalcases: [{{id: a, input: hi, {NO_WEIGHT}}}]", "$.evalcases[0].evaluators[0].weight"),
        (f"evalcases: [{{id: a, input: hi}}, {{id: b, input: hi}}]\n{NO_WEIGHT}", "$.evaluators[0].weight"),
        (
            f"evalcases: [{{id: a, turns: [{{input: hi, {NO_WEIGHT}}}]}}]",
            "$.evalcases[0].turns[0].evaluators[0].weight",
        ),
        (
            f"evalcases: [{{id: a, input: hi}}]\ncriteria: [{{name: c, weight: 0}}]\n{OF_CRITERION}",
            "$.evaluators[0].weight",
        ),
    ],
)
def test_case_whose_evaluators_have_no_weight_is_warned_of(text: str, place: str, tmp_path: Path) -> None:
    (found,) = load(tmp_path, text).warnings
    assert (found.json_path, found.message) == (
        place,
        "every evaluator, or its criterion, has weight 0, so every answer scores 0",
    )
    assert found.line


@pytest.mark.parametrize(
    ("evaluators", "unscored"),
    [
        ("[{name: x, type: contains, value: y, criterion: a}]", ["b"]),
        ("[{name: x, type: contains, value: y}]", ["a", "b"]),
        ("[{name: a, type: contains, value: y}, {name: z, type: llm_judge, criteria: [b]}]", []),
        ("[{name: x, type: rule_based, rules: [{criterion: b, type: length, max: 9}]}]", ["a"]),
        ("[{name: x, type: code_judge, python: 'suite.py:judge'}]", []),
        ("[{name: x, type: code_judge, python: 'suite.py:judge', criterion: b}]", ["a"]),
    ],
)
def test_criteria_that_no_evaluator_scores_are_warned_of(evaluators: str, unscored: list[str], tmp_path: Path) -> None:
    (tmp_path / "suite.py").write_text("def judge(case): return 1.0")
    (tmp_path / "suite.yaml").write_text(
        f"criteria: [{{name: a}}, {{name: b}}]\nevalcases: [{{id: a, input: hi, expected_outcome: x}}]\n"
        f"evaluators: {evaluators}\n"
    )
    warnings = load_suite(tmp_path / "suite.yaml", specs=load_specs()).warnings
    assert [each.message for each in warnings] == [f"no evaluator scores the criterion {name!r}" for name in unscored]
    assert [each.json_path for each in warnings] == [f"$.criteria[{'ab'.index(name)}]" for name in unscored]


@pytest.mark.parametrize("is_imported", [True, False])
def test_a_plug_in_may_score_any_criterion(is_imported: bool, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("import agentv\n\n@agentv.evaluator('mine')\ndef mine(context): return 1.0\n")
    (tmp_path / "suite.yaml").write_text(
        "criteria: [{name: a}]\nevalcases: [{id: a, input: hi, expected_outcome: x}]\n"
        "evaluators: [{name: x, type: mine}]\n"
    )
    specs = load_specs(["mine.py"], base_dir=str(tmp_path)) if is_imported else load_specs_without(["mine.py"])
    assert load_suite(tmp_path / "suite.yaml", specs=specs).warnings == ()


def test_evaluators_without_weight_may_stand_beside_others(tmp_path: Path) -> None:
    rubrics = "rubrics: [polite], expected_outcome: x"
    assert load(tmp_path, f"evalcases: [{{id: a, input: hi, {rubrics}}}]\n{NO_WEIGHT}").evaluators


def test_options_of_conversations_need_turns(tmp_path: Path) -> None:
    with pytest.raises(EvalFileError, match="`turn_window` needs `turns`"):
        load(tmp_path, CASE + "    execution: {turn_window: 2}\n")


def test_turns_of_a_dataset_s_template_and_of_lines(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("id,question,more\na,Who?,yes\n")
    turns = '[{input: "{{ question }}", expected: "{{ more }}"}]'
    case = only_case(tmp_path, f"evalcases: {{file: rows.csv, case: {{turns: {turns}}}}}")
    assert (case.input_messages, [turn.input.content for turn in case.turns]) == ((), ["Who?"])
    (tmp_path / "lines.jsonl").write_text('{"id": "b", "turns": [{"input": "hi", "expected": "yo"}]}\n')
    case = only_case(tmp_path, "evalcases: lines.jsonl")
    assert (case.input_messages, [turn.input.content for turn in case.turns]) == ((), ["hi"])
