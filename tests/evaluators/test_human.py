"""Labels of people are results beside those of judges, on every scale; a missing label is not a score."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from tests.support.judging import evaluator_of, make_context, make_evaluator

from agentv import AggregatedEvaluationResult, EvaluationInput, EvaluationRunConfig
from agentv.api import evaluate, run_evaluation_sync
from agentv.engine.plugins.loading import load_specs
from agentv.loading.models.settings import content_problems
from agentv.loading.suites.suites import load_suite
from agentv.scoring.results.completion import to_score
from agentv.types.cases import EvalCase, EvaluatorConfig
from agentv.types.errors import ConfigError, EvalFileError, EvaluatorError
from agentv.types.evaluation import EvaluationScore
from agentv.types.json_value import JsonObject
from agentv.types.scales import EvaluationCriteria
from agentv.types.targets import ResolvedTarget

TONE = EvaluationCriteria("tone", scale="likert5")
LABELS = EvaluationCriteria("tone", scale="labels", labels=("poor", "fair", "good"))


def entry(score: Any, annotator: str = "", **more: Any) -> JsonObject:
    return {"eval_id": "refund-1", "criterion": "tone", "score": score, "annotator": annotator, **more}


def write(path: Path, *entries: JsonObject) -> Path:
    path.write_text("".join(json.dumps(each) + "\n" for each in entries), "utf-8")
    return path


def judged(file: Path, *, criterion: str | None = None, **context: Any) -> EvaluationScore:
    human = make_evaluator(EvaluatorConfig("people", "human", {"file": str(file)}, criterion=criterion))
    made = make_context(**{"criteria": (TONE,), **context})
    return to_score(human.evaluate(made), name=criterion or "people", kind="human", criteria=made.criteria)


def said(score: EvaluationScore, at: int = 0) -> Any:
    metadata = score.results[at].metadata
    assert metadata is not None
    return metadata["annotators"]


def test_one_annotators_score_is_kept_on_its_own_scale(tmp_path: Path) -> None:
    score = judged(write(tmp_path / "a.jsonl", entry(4, "anna", reasoning="kind", time="2026-01-31T12:00:00Z")))
    (result,) = score.results
    assert (score.score, result.score, result.value, result.reasoning) == (0.75, 4.0, 0.75, "kind")
    assert (result.scale, result.evaluator_type) == ("likert5", "human")
    assert said(score) == [
        {
            "annotator": "anna",
            "score": 4,
            "value": 0.75,
            "reasoning": "kind",
            "time": "2026-01-31T12:00:00+00:00",
            "line": f"{tmp_path}/a.jsonl:1",
        }
    ]


def test_several_annotators_are_averaged_with_spread_and_own_scores(tmp_path: Path) -> None:
    score = judged(
        write(tmp_path / "a.jsonl", entry(4, "anna", reasoning="kind"), entry("5/5", "ben", reasoning="very"))
    )
    (result,) = score.results
    assert (result.value, result.score, result.reasoning) == (0.875, 4.5, "anna: kind | ben: very")
    assert result.metadata is not None
    assert result.metadata["spread"] == {"values": [0.75, 1.0], "min": 0.75, "max": 1.0, "stdev": 0.125}
    assert [each["score"] for each in said(score)] == [4, "5/5"]


def test_several_files_are_taken_together(tmp_path: Path) -> None:
    files = [str(write(tmp_path / f"{name}.jsonl", entry(given, name))) for name, given in (("anna", 1), ("ben", 5))]
    human = evaluator_of("human", file=files)
    assert to_score(human.evaluate(make_context(criteria=(TONE,))), criteria=(TONE,)).score == 0.5


@pytest.mark.parametrize(
    ("criterion", "given", "value"),
    [
        (TONE, "4", 0.75),
        (TONE, "4/5", 0.75),
        (LABELS, "Fair", 0.5),
        (EvaluationCriteria("tone", scale="percent"), "85%", 0.85),
        (EvaluationCriteria("tone", scale="percent"), 85, 0.85),
        (EvaluationCriteria("tone", scale="pass/fail"), "fail", 0.0),
        (EvaluationCriteria("tone"), True, 1.0),
        (EvaluationCriteria("tone", scale="numeric", max=10), 7, 0.7),
        (None, 0.7, 0.7),
        (None, "7/10", 0.7),
        (None, "yes", 1.0),
    ],
)
def test_scores_are_read_on_the_scale_of_their_criterion(
    tmp_path: Path, criterion: EvaluationCriteria | None, given: Any, value: float
) -> None:
    score = judged(write(tmp_path / "a.jsonl", entry(given)), criteria=(criterion,) if criterion else ())
    assert score.error is None
    assert score.score == pytest.approx(value)


@pytest.mark.parametrize(
    ("criteria", "given", "message"),
    [
        ((TONE,), 6, "6 is outside 1 to 5 (likert5)"),
        ((LABELS,), "great", "'great' is not one of the labels poor, fair, good"),
        ((), 4, "4 is outside 0 to 1 (tone); define 'tone' under `criteria`, with its scale"),
    ],
)
def test_a_score_that_its_scale_does_not_have_is_an_error_with_its_line(
    tmp_path: Path, criteria: tuple[EvaluationCriteria, ...], given: Any, message: str
) -> None:
    score = judged(write(tmp_path / "a.jsonl", entry(1, "anna"), entry(given, "ben")), criteria=criteria)
    (result,) = score.results
    assert (score.status, result.value, result.error) == ("error", None, f"{tmp_path}/a.jsonl:2: {message}")


def test_words_on_a_scale_of_ones_own_are_kept_and_not_averaged(tmp_path: Path) -> None:
    file = write(tmp_path / "a.jsonl", entry("warm"), entry("cold"), entry("warm"))
    score = judged(file, criteria=(EvaluationCriteria("tone", scale="temperature"),))
    (result,) = score.results
    assert (score.status, result.score, result.value, result.error) == ("skipped", "warm", None, None)


def test_a_case_without_labels_is_skipped_with_a_reason(tmp_path: Path) -> None:
    score = judged(write(tmp_path / "a.jsonl", {**entry(5), "eval_id": "refund-2"}))
    assert (score.status, score.error, score.results) == ("skipped", None, ())
    assert score.reasoning == "no label for case 'refund-1'"


def test_negate_does_not_score_missing_labels(tmp_path: Path) -> None:
    file = write(tmp_path / "a.jsonl")
    output = evaluator_of("human", file=str(file)).evaluate(make_context())
    score = to_score(output, name="people", kind="human", negate=True)
    assert (score.status, score.score, score.results) == ("skipped", 0.0, ())


def test_one_criterion_may_be_selected(tmp_path: Path) -> None:
    file = write(tmp_path / "a.jsonl", entry(5), {**entry(1), "criterion": "length"})
    assert [result.criterion_name for result in judged(file).results] == ["tone", "length"]
    assert [result.criterion_name for result in judged(file, criterion="tone").results] == ["tone"]
    silent = judged(file, criterion="style")
    (result,) = silent.results
    assert (silent.status, result.value, result.error) == ("skipped", None, None)
    assert result.reasoning == "no label"


def test_criteria_without_labels_have_no_value_and_no_error(tmp_path: Path) -> None:
    file = write(tmp_path / "a.jsonl", entry(4), {**entry(1), "criterion": "length"})
    human = evaluator_of("human", file=str(file), criteria=["tone", "style"])
    score = to_score(human.evaluate(make_context(criteria=(TONE,))), criteria=(TONE,))
    assert (score.status, score.score) == ("scored", 0.75)
    assert [(each.criterion_name, each.value, each.error) for each in score.results] == [
        ("tone", 0.75, None),
        ("style", None, None),
    ]


def test_evaluate_counts_unlabelled_criteria_as_expected_but_unscored(tmp_path: Path) -> None:
    file = write(tmp_path / "a.jsonl", {**entry(4), "eval_id": "s-1"}, {**entry(5), "eval_id": "s-2"})
    config = EvaluationRunConfig([{"type": "human", "file": str(file)}])
    criteria = (TONE, EvaluationCriteria("style"))

    def run(session: str) -> AggregatedEvaluationResult:
        answer = EvaluationInput(prompt="May I?", response="Yes.", criteria=criteria, session_id=session)
        return run_evaluation_sync(answer, config)

    known, unknown = run("s-1"), run("s-3")
    assert (known.overall_score, known.scored, known.expected, known.run_errors) == (0.75, 1, 2, ())
    assert (unknown.overall_score, unknown.scored, unknown.expected, unknown.run_errors) == (None, 0, 2, ())
    assert [each.reasoning for each in unknown.results] == ["no label"] * 2


def test_feedback_on_a_session_is_found_by_its_id(tmp_path: Path) -> None:
    file = write(tmp_path / "a.jsonl", {"session_id": "s-17", "criterion": "tone", "score": 5})
    assert judged(file, session_id="s-17").score == 1.0
    assert judged(file, session_id="s-18").status == "skipped"


@pytest.mark.parametrize("which", [{"target": "other"}, {"trial": 1}, {"suite": "evals/b.yaml"}])
def test_feedback_on_another_answer_of_the_case_is_left_out(tmp_path: Path, which: dict[str, Any]) -> None:
    file = write(tmp_path / "a.jsonl", entry(5, "anna"), entry(1, "ben", **which))
    assert judged(file, suite="evals/a.yaml").score == 1.0
    that: dict[str, Any] = {"suite": "evals/b.yaml", "trial": 1, "target": ResolvedTarget("other", "mock", None)}
    assert judged(file, **that).score == 0.5


def test_a_file_is_read_again_when_it_changed(tmp_path: Path) -> None:
    file = write(tmp_path / "a.jsonl", entry(1))
    assert judged(file).score == 0.0
    write(file, entry(5))
    os.utime(file, ns=(0, 0))
    assert judged(file).score == 1.0


def test_every_bad_line_is_reported_before_the_run(tmp_path: Path) -> None:
    (tmp_path / "said.csv").write_text("eval_id,criterion,score,trial\na,tone,1,one\na,tone,1,0\n,tone,1,\n")
    suite = tmp_path / "suite.yaml"
    suite.write_text(
        "execution: {evaluators: [{name: people, type: human, file: said.csv}]}\n"
        "evalcases: [{id: a, input_messages: [{role: user, content: hi}], expected_outcome: ok,\n"
        "  evaluators: [{name: people, type: human, file: said.csv}]}]\n"
    )
    with pytest.raises(EvalFileError) as refused:
        load_suite(suite, specs=load_specs())
    places = [(Path(each.path).name, each.line) for each in refused.value.problems if each.path.endswith("said.csv")]
    assert places == [("said.csv", 2), ("said.csv", 4)]


def test_bad_lines_stop_a_run_from_python_too(tmp_path: Path) -> None:
    (tmp_path / "said.jsonl").write_text("{}\n")
    config = EvaluatorConfig("people", "human", {"file": "said.jsonl"}, base_dir=str(tmp_path))
    with pytest.raises(ConfigError, match=r"said\.jsonl:1:1  \$  'eval_id' is missing"):
        evaluate([EvalCase("a", "hi")], task=lambda _: "hi", evaluators=[config])


def test_a_run_counts_only_what_people_judged(tmp_path: Path) -> None:
    file = write(tmp_path / "a.jsonl", {**entry(1.0), "eval_id": "seen"})
    report = evaluate(
        [EvalCase("seen", "hi"), EvalCase("unseen", "hi")],
        task=lambda _: "hello",
        evaluators=[EvaluatorConfig("people", "human", {"file": str(file)})],
    )
    seen, unseen = report.results
    assert (seen.status, seen.score) == ("pass", 1.0)
    assert (unseen.status, unseen.score, unseen.verdict) == ("skipped", None, None)
    assert unseen.reasoning == "no label for case 'unseen'"
    assert (report.counts, report.targets[0].mean_score) == ({"pass": 1, "skipped": 1}, 1.0)


def test_a_file_that_is_gone_is_that_evaluators_error(tmp_path: Path) -> None:
    with pytest.raises(EvaluatorError, match=r"cannot read .*gone\.jsonl: No such file"):
        evaluator_of("human", file=str(tmp_path / "gone.jsonl"))


def test_a_missing_file_is_not_checked_for_content(tmp_path: Path) -> None:
    spec = load_specs().evaluators.get("human")
    assert content_problems(spec.load_settings()(file="gone.jsonl"), str(tmp_path)) == ()


@pytest.mark.parametrize("file", ["", [], ["a.csv", ""]])
def test_a_setting_that_names_no_file_is_refused(file: Any) -> None:
    with pytest.raises(EvalFileError, match="`file` must name a file"):
        evaluator_of("human", file=file)


SUITE = """
evalcases:
  - {id: refund-1, input: hi, conversation_id: call-7}
evaluators:
  - {name: people, type: human, file: said.jsonl}
  - {name: fits, type: contains, value: hi}
"""


def test_labels_that_match_no_case_are_warned_of_with_their_line(tmp_path: Path) -> None:
    others = [{**entry(1), "eval_id": name} for name in ("refnd-1", "refnd-1", "call-7")]
    write(tmp_path / "said.jsonl", entry(4), *others, {**entry(2), "eval_id": "b", "suite": "other.yaml"})
    (tmp_path / "suite.yaml").write_text(SUITE)
    (warning,) = load_suite(tmp_path / "suite.yaml", specs=load_specs()).warnings
    assert (
        "said.jsonl:2:1  $  warning: no case of suite.yaml has the id 'refnd-1', so its 2 labels are not used; "
        "did you mean 'refund-1'?"
    ) in warning.render()


def test_of_many_labels_without_a_case_five_are_listed(tmp_path: Path) -> None:
    write(tmp_path / "said.jsonl", *({**entry(1), "eval_id": f"x{number}"} for number in range(8)))
    (tmp_path / "suite.yaml").write_text(SUITE)
    warnings = load_suite(tmp_path / "suite.yaml", specs=load_specs()).warnings
    assert [each.line for each in warnings] == [1, 2, 3, 4, 5]
    assert warnings[-1].message.endswith("(and 3 more such ids)")
