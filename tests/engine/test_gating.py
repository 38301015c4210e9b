"""Which gates apply to which rows, and which are rejected before any call."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from agentv import EvalCase, EvaluationScore, ProviderRequest, evaluate
from agentv.types.cases import CASES_CHECKED_AHEAD
from agentv.types.errors import ConfigError, NothingFoundError
from agentv.types.results import RunReport

CASE = (
    "{id: %s, expected_outcome: x, input_messages: [{role: user, content: hi}], tags: [%s], "
    "evaluators: [{name: says-x, type: contains, value: %s}]}"
)
GOOD, BAD = CASE % ("good", "easy", "x"), CASE % ("bad", "hard", "y")

Run = Callable[..., RunReport]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    (tmp_path / ".git").mkdir()
    (tmp_path / "targets.yaml").write_text("targets: [{name: t, provider: mock, response: x}]")

    def made(suites: Mapping[str, str], *, project: str = "", **options: Any) -> RunReport:
        for name, text in suites.items():
            (tmp_path / name).write_text(text)
        if project:
            (tmp_path / ".agentv.yaml").write_text(f"gates: [{project!r}]")
        given = {"target": "t", **options} if "targets" not in options else options
        return evaluate(tmp_path, folder=tmp_path / ".agentv", **given)

    return made


def suite(*cases: str, gate: str | None = None) -> str:
    gates = "" if gate is None else f"gates: [{gate!r}]\n"
    return f"{gates}evalcases:\n" + "".join(f"  - {case}\n" for case in cases)


def outcomes(report: RunReport) -> list[tuple[str, bool]]:
    return [(each.sentence.split(" is ")[0], each.passed) for each in report.verdict.gates]


def test_a_suites_gates_replace_the_projects(run: Run) -> None:
    report = run({"a.yaml": suite(GOOD, BAD, gate="mean >= 0.5")}, project="mean >= 0.9")
    assert (report.exit_code, outcomes(report)) == (0, [("mean", True)])


def test_those_of_the_command_line_replace_both(run: Run) -> None:
    report = run({"a.yaml": suite(GOOD, BAD, gate="mean >= 0.5")}, project="mean >= 0.9", gates=("errors <= 0",))
    assert outcomes(report) == [("errors", True)]


def test_the_projects_gates_hold_for_all_rows_together(run: Run) -> None:
    report = run({"a.yaml": suite(GOOD), "b.yaml": suite(BAD)}, project="mean >= 0.5")
    assert (report.exit_code, outcomes(report)) == (0, [("mean", True)])


@pytest.mark.parametrize(
    ("project", "gates"),
    [
        ("", [("a.yaml: mean", True), ("b.yaml: pass_rate", False)]),
        ("mean >= 0.1", [("a.yaml: mean", True), ("b.yaml: mean", False)]),
    ],
)
def test_suite_without_gates_has_project_or_default_gate_beside_others(
    run: Run, project: str, gates: list[tuple[str, bool]]
) -> None:
    report = run({"a.yaml": suite(GOOD, gate="mean >= 0.5"), "b.yaml": suite(BAD)}, project=project)
    assert (report.exit_code, outcomes(report)) == (1, gates)


def test_a_suite_that_nothing_was_selected_of_is_held_to_nothing(run: Run) -> None:
    suites = {"a.yaml": suite(GOOD, gate="mean >= 0.5"), "b.yaml": suite(BAD, gate="mean >= 0.5")}
    report = run(suites, case_globs=("good",))
    assert (report.exit_code, outcomes(report)) == (0, [("a.yaml: mean", True)])


@pytest.mark.parametrize(
    ("gate", "message"),
    [
        ("evaluator(say-x).mean >= 0", "unknown evaluator 'say-x'; known: says-x. Did you mean 'says-x'?"),
        ("tag(eas).mean >= 0", "column 5: unknown tag 'eas'; known: easy, hard. Did you mean 'easy'?"),
        ("target(T).mean >= 0", "unknown target 'T'; known: t."),
        ("dataset(b).mean >= 0", "column 9: unknown dataset 'b'; known: a."),
        ("pass_hat(3) >= 0.8", "column 10: no case has 3 trials; set them with --trials 3 or `trials:`"),
        ("mean >= 80", "write 80% for percent"),
    ],
)
def test_gate_without_matching_rows_is_rejected_before_any_call(run: Run, gate: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        run({"a.yaml": suite(GOOD, BAD)}, gates=(gate,))
    assert message in str(caught.value)


def test_a_suites_gate_can_only_ask_for_what_its_own_rows_have(run: Run) -> None:
    with pytest.raises(
        ConfigError, match=r"b.yaml: gate 'tag\(easy\).mean >= 0', column 5: unknown tag 'easy'; known: hard"
    ):
        run({"a.yaml": suite(GOOD), "b.yaml": suite(BAD, gate="tag(easy).mean >= 0")})


def test_gate_of_a_file_on_what_is_not_selected_is_not_evaluated(run: Run) -> None:
    report = run({"a.yaml": suite(GOOD, BAD, gate="tag(hard).mean >= 0")}, case_globs=("good",))
    assert [gate.state for gate in report.verdict.gates][:1] == ["not_evaluated"]
    assert "tag(hard).mean >= 0 (the selection leaves out tag 'hard')" in report.verdict.sentence
    assert report.exit_code == 0


def test_gate_of_a_file_on_a_name_that_no_case_has_names_the_gate_option(run: Run) -> None:
    with pytest.raises(
        ConfigError,
        match=r"unknown tag 'hrad'; known: easy, hard\. Did you mean 'hard'\? \(the gate is from a file; --g",
    ):
        run({"a.yaml": suite(GOOD, BAD, gate="tag(hrad).mean >= 0")}, case_globs=("good",))


def test_gate_of_the_command_line_on_what_is_not_selected_is_refused(run: Run) -> None:
    with pytest.raises(ConfigError, match="unknown tag 'hard'; known: easy"):
        run({"a.yaml": suite(GOOD, BAD)}, case_globs=("good",), gates=("tag(hard).mean >= 0",))


def test_other_gates_of_the_file_decide_when_one_is_not_evaluated(run: Run) -> None:
    text = "gates: [tag(hard).mean >= 0, tag(easy).mean >= 0.5]\n" + suite(GOOD, BAD)
    report = run({"a.yaml": text}, case_globs=("good",))
    assert [gate.state for gate in report.verdict.gates] == ["not_evaluated", "passed"]
    report = run({"a.yaml": text}, case_globs=("bad",))
    assert [gate.state for gate in report.verdict.gates] == ["passed", "not_evaluated"]


def test_without_an_evaluated_gate_every_selected_result_must_pass(run: Run) -> None:
    report = run({"a.yaml": suite(GOOD, BAD, gate="tag(easy).mean >= 0")}, case_globs=("bad",))
    assert (report.exit_code, report.verdict.gates[0].state) == (1, "not_evaluated")


@pytest.mark.parametrize(
    ("selection", "reason"),
    [
        ({"tags": "esay"}, "no case has the tag 'esay', did you mean 'easy'? (2 loaded)"),
        ({"case_globs": "god"}, "no case matches --case 'god', did you mean 'good'? (2 loaded)"),
        ({"expression": "gud and easy"}, "no case matches -k 'gud and easy'; no case has 'gud'"),
        ({"tags": "easy", "case_globs": "bad"}, "no case matches --tag 'easy' and --case 'bad' (2 loaded)"),
    ],
)
def test_a_selection_of_nothing_names_the_nearest_word(run: Run, selection: dict[str, str], reason: str) -> None:
    report = run({"a.yaml": suite(GOOD, BAD, gate="tag(easy).mean >= 0")}, **selection)
    assert report.exit_code == 5
    assert reason in report.verdict.sentence


@pytest.mark.parametrize(
    ("selection", "message"),
    [
        ({"case_globs": ["good", "bda"]}, "no case matches --case 'bda', did you mean 'bad'? (2 loaded)"),
        ({"tags": ["easy", "hrad", "x"]}, "no case has the tag 'hrad', did you mean 'hard'? or 'x' (2 loaded)"),
        (
            {"case_globs": ["g*", "z*"], "tags": ["easy", "q"]},
            "no case matches --case 'z*'; no case has the tag 'q' (2 loaded)",
        ),
    ],
)
def test_an_unknown_name_beside_others_that_select_cases_is_an_error(
    run: Run, selection: dict[str, list[str]], message: str
) -> None:
    with pytest.raises(NothingFoundError) as refused:
        run({"a.yaml": suite(GOOD), "b.yaml": suite(BAD)}, **selection)
    assert str(refused.value) == message


def test_names_may_select_cases_of_different_files_and_the_same_case(run: Run) -> None:
    report = run({"a.yaml": suite(GOOD), "b.yaml": suite(BAD)}, case_globs=["good", "bad", "g*"], tags=["easy", "hard"])
    assert {row.eval_id for row in report.results} == {"good", "bad"}


def test_trials_make_gates_on_them_measurable(run: Run) -> None:
    report = run({"a.yaml": suite(GOOD)}, gates=("pass_hat(3) >= 100%",), trials=3)
    assert report.verdict.sentence == "PASS: pass_hat(3) is 100 % (point estimate), as required (>= 100 %)."


def stream(lines: int) -> dict[str, str]:
    line = '{{"id": "c{}", "expected_outcome": "x", "input_messages": [{{"role": "user", "content": "hi"}}]}}\n'
    head = "execution: {evaluators: [{name: says-x, type: contains, value: x}]}\n"
    return {"s.yaml": head, "s.jsonl": "".join(line.format(number) for number in range(lines))}


@pytest.mark.parametrize("gate", ["evaluator(say-x).mean >= 0", "tag(easy).mean >= 0", "pass_at(2) >= 0.5"])
def test_of_a_stream_that_is_looked_at_to_its_end_names_are_known_as_well(run: Run, gate: str) -> None:
    with pytest.raises(ConfigError, match=r"unknown evaluator 'say-x'|unknown tag 'easy'|no case has 2 trials"):
        run(stream(3), gates=(gate,))


def test_of_a_long_stream_a_name_that_no_row_had_leaves_the_gate_undecided_and_says_so(run: Run) -> None:
    report = run(stream(CASES_CHECKED_AHEAD), gates=("evaluator(say-x).mean >= 0",))
    assert report.exit_code == 3
    assert "there is no evaluator 'say-x'; did you mean 'says-x'?" in report.verdict.sentence


@pytest.mark.parametrize("gates", [None, "none", ("mean >= 0",), ("errors >= 0",), ("cost_usd <= 5",)])
@pytest.mark.parametrize("broken", ["target", "evaluator"])
def test_a_run_whose_every_row_failed_to_execute_never_passes(
    tmp_path: Path, broken: str, gates: str | tuple[str, ...] | None
) -> None:
    class Broken:
        kind = "broken"

        def evaluate(self, _context: object) -> EvaluationScore:
            raise RuntimeError("no judge today")

    async def task(_request: ProviderRequest) -> str:
        if broken == "target":
            raise RuntimeError("no answer today")
        return "x"

    cases = [EvalCase(name, "hi") for name in "abc"]
    report = evaluate(cases, task=task, evaluators=[Broken()], folder=tmp_path / ".agentv", gates=gates, max_errors=99)
    assert (report.exit_code, report.verdict.sentence) == (
        3,
        "INCOMPLETE: no result could be judged. 3 results with errors.",
    )


def test_gate_of_a_file_on_an_evaluator_that_only_free_leaves_out_is_not_evaluated(run: Run) -> None:
    both = GOOD.replace("value: x}]", "value: x}, {name: judged, type: llm_judge}]")
    text = "gates: [evaluator(judged).mean >= 0.9, evaluator(says-x).mean >= 0.9]\n" + suite(both)
    report = run({"a.yaml": text}, only="free")
    assert [gate.state for gate in report.verdict.gates] == ["not_evaluated", "passed"]
    assert report.exit_code == 0


def test_gate_of_a_file_on_a_target_that_no_selected_case_has_is_not_evaluated(run: Run) -> None:
    own = BAD.replace("id: bad", "id: bad, execution: {targets: [t]}")
    text = "gates: [target(t).mean >= 0.9]\n" + suite(GOOD, own)
    report = run({"a.yaml": text, "targets.yaml": TWO_TARGETS}, case_globs=("good",), targets=("u",))
    assert [gate.state for gate in report.verdict.gates] == ["not_evaluated", "passed"]


TWO_TARGETS = "targets: [{name: t, provider: mock, response: x}, {name: u, provider: mock, response: x}]"


def test_gate_of_a_file_on_a_tag_of_a_line_that_a_limit_leaves_out_is_not_evaluated(run: Run) -> None:
    files = stream(3)
    files["s.yaml"] = "gates: [tag(rare).mean >= 0.9]\n" + files["s.yaml"]
    files["s.jsonl"] += '{"id": "last", "tags": ["rare"], "expected_outcome": "x", "input_messages": "hi"}\n'.replace(
        '"hi"', '[{"role": "user", "content": "hi"}]'
    )
    report = run(files, limit=2)
    assert report.verdict.gates[0].state == "not_evaluated"
