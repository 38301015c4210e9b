"""Configurations of criteria-based evaluation: problems are reported first, unused parts need not be valid."""

import asyncio
import json
import math
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentv import (
    AggregatedEvaluationResult,
    ConfigError,
    EvalFileError,
    EvaluationCriteria,
    EvaluationInput,
    EvaluationResult,
    EvaluationRunConfig,
    EvaluationRunner,
    EvaluatorConfig,
    TargetConfig,
    run_evaluation_sync,
)
from agentv.loading.criteria.run_configs import OPTIONS, RunConfigModel
from agentv.loading.models.file_model import file_fields, key_of
from agentv.types.structs import StructField

POLITE, SHORT = EvaluationCriteria("polite"), EvaluationCriteria("short")
PLEASE = {"type": "contains", "value": "please", "criterion": "polite"}
JUDGED = {"type": "llm_judge", "criterion": "short"}
NO_KEY = TargetConfig("strict", "openai", {"model": "m", "api_key": "${{ NO_SUCH_KEY }}"})


def judged(evaluators: list[Any], **options: Any) -> AggregatedEvaluationResult:
    config = EvaluationRunConfig(evaluators=evaluators, **options)
    return run_evaluation_sync(EvaluationInput("please", (POLITE, SHORT)), config)


def problems_of(path: Path, text: str) -> str:
    path.write_text(text, "utf-8")
    with pytest.raises(EvalFileError) as caught:
        EvaluationRunConfig.load(path)
    return str(caught.value)


@pytest.mark.parametrize(
    ("judge_config", "judge"),
    [(JUDGED, None), (JUDGED, "unknown"), (JUDGED, NO_KEY), ({**JUDGED, "judge": NO_KEY}, None)],
    ids=["no judge", "unknown judge", "a judge without its key", "a judge of its own without its key"],
)
def test_a_judge_that_the_selection_leaves_out_need_not_be_there(judge_config: dict[str, Any], judge: Any) -> None:
    assert judged([PLEASE, judge_config], judge=judge, only="free").overall_score == 1.0
    assert judged([PLEASE, judge_config], judge=judge, only=["polite"]).overall_score == 1.0
    with pytest.raises(EvalFileError):
        judged([PLEASE, judge_config], judge=judge)
    with pytest.raises(EvalFileError):
        judged([PLEASE, judge_config], judge=judge, only=["llm_judge"])


def test_empty_or_unknown_selection_is_rejected() -> None:
    with pytest.raises(
        EvalFileError,
        match=r"\$.only\[1\]  'contians' is not the name or type of an evaluator in this configuration; known: ",
    ):
        judged([PLEASE, {**PLEASE, "criterion": "short"}], only=["polite", "contians"])
    with pytest.raises(ConfigError, match=r"\$\.only  must not be empty"):
        judged([PLEASE], only=[])


def test_config_file_reports_invalid_evaluators_and_selection(tmp_path: Path) -> None:
    said = problems_of(
        tmp_path / "score.yaml",
        "evaluators:\n  - {type: contains, value: x}\n  - 42\n  -\n  - [contains]\nonly:\n  - contains\n  - contians\n",
    )
    for place in (":3:5  $.evaluators[1]", ":4:4  $.evaluators[2]", ":5:5  $.evaluators[3]"):
        assert f"score.yaml{place}  must be an object with name and type" in said
    assert "score.yaml:8:5  $.only[1]  is not the name or type of an evaluator in this configuration" in said
    assert "$.only[0]" not in said


def test_invalid_values_are_reported_all_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        EvaluationRunConfig(
            evaluators=[PLEASE],
            criteria="polite",
            metadata=[1],  # type: ignore[arg-type]
            evaluator_concurrency="8",  # type: ignore[arg-type]
            evaluator_timeout_s=float("nan"),
            error_policy="none",  # type: ignore[arg-type]
            gates="mean > 1",
        )
    for name in ("criteria", "metadata", "evaluator_concurrency", "evaluator_timeout_s", "error_policy", "gates"):
        assert f"  $.{name}" in str(caught.value)


def test_none_is_refused_where_an_option_has_a_default() -> None:
    with pytest.raises(ConfigError, match=r"\$.evaluator_concurrency  must not be None; leave it out .* default, 8"):
        EvaluationRunConfig(evaluators=[PLEASE], evaluator_concurrency=None)  # type: ignore[arg-type]


def test_a_configuration_has_the_same_fields_in_files_and_from_python() -> None:
    in_files = {each.name for each in file_fields(RunConfigModel)}
    assert set(EvaluationRunConfig.__struct_fields__) - in_files == {"targets", "base_dir"}
    assert in_files <= set(EvaluationRunConfig.__struct_fields__)


@pytest.mark.parametrize("value", [-1, 0, 1.5, True, "x", [], [""], [1], {}, {"a": 1}, float("inf")], ids=repr)
@pytest.mark.parametrize("option", [each for each in file_fields(RunConfigModel) if each.name in OPTIONS])
def test_a_value_of_an_option_is_valid_or_refused_at_every_door(
    option: StructField, value: object, tmp_path: Path
) -> None:
    key = key_of(option)
    path = tmp_path / "score.json"
    path.write_text(json.dumps({"evaluators": [PLEASE], key: value}))
    doors: list[Callable[[], EvaluationRunConfig]] = [
        lambda: EvaluationRunConfig.load(path),
        lambda: EvaluationRunConfig.from_dict({"evaluators": [PLEASE], key: value}),
        lambda: EvaluationRunConfig(evaluators=[PLEASE], **{option.name: value}),  # type: ignore[arg-type]
    ]

    def outcome_of(door: Callable[[], EvaluationRunConfig]) -> object:
        try:
            return getattr(door(), option.name)
        except EvalFileError as error:
            return [(each.json_path, each.message) for each in error.problems]

    if isinstance(value, float) and math.isinf(value):
        doors = doors[1:]  # JSON has no infinity
    outcomes = [outcome_of(door) for door in doors]
    assert all(outcome == outcomes[0] for outcome in outcomes), outcomes


def test_a_key_written_in_two_spellings_is_refused() -> None:
    with pytest.raises(ConfigError, match="`evaluators` and `evaluatorConfigs` both set `evaluators`"):
        EvaluationRunConfig.from_dict({"evaluators": [PLEASE], "evaluatorConfigs": [PLEASE]})
    with pytest.raises(ConfigError, match="must be an object, not a list"):
        EvaluationRunConfig.from_dict([PLEASE])  # type: ignore[arg-type]


def test_a_configuration_in_use_can_be_sent_to_another_process() -> None:
    config = EvaluationRunConfig(evaluators=[PLEASE])
    given = EvaluationInput("please", (POLITE,))
    first = run_evaluation_sync(given, config)
    assert run_evaluation_sync(given, pickle.loads(pickle.dumps(config))).results == first.results


def test_a_class_in_the_place_of_an_evaluator_is_refused() -> None:
    class Kind:
        kind = "kind"

        def evaluate(self, context: object) -> float:  # noqa: ARG002 - the protocol's
            return 1.0

    with pytest.raises(EvalFileError, match=r"Kind is a class; give an object: Kind\("):
        judged([PLEASE, Kind])


@pytest.mark.parametrize(
    ("criterion", "fault"),
    [
        (EvaluationCriteria(None), "`name` must be a string, not None"),  # type: ignore[arg-type]
        (EvaluationCriteria("polite", weight="2"), "`weight` must be a number, not '2'"),  # type: ignore[arg-type]
        (EvaluationCriteria("polite", max=True), "`max` must be a number, not True"),
        (EvaluationCriteria("polite", scale=[1, 2]), "`scale` must list labels that are strings"),  # type: ignore[arg-type]
        (EvaluationCriteria("polite", scale="mood", labels=("bad", "good", "Bad")), "`labels` must list at least two"),
        (EvaluationCriteria("polite", scale="mood", labels=("bad",)), "`labels` must list at least two"),
    ],
)
def test_a_criterion_made_of_the_wrong_sorts_is_refused(criterion: EvaluationCriteria, fault: str) -> None:
    config = EvaluationRunConfig(evaluators=[PLEASE])
    with pytest.raises(EvalFileError) as caught:
        run_evaluation_sync(EvaluationInput("x", (criterion,)), config)
    assert fault in str(caught.value)


@pytest.mark.parametrize(
    ("storage", "said"),
    [
        ("{type: jsonfile, path: x}", "score.yaml:2:17  $.storage.type  unknown store 'jsonfile'"),
        ("{path: x}", "score.yaml:2:10  $.storage  the key 'type' is missing"),
        ("{type: json_file, pth: x}", "score.yaml:2:28  $.storage.pth  unknown key 'pth'"),
        ("{type: json_file, config: {path: ''}}", "score.yaml:2:43  $.storage.path  `path` must name a file"),
        (
            "{type: json_file, config: {path: a}, path: b}",
            "score.yaml:2:47  $.storage.path  `path` is given both inside and outside `config`",
        ),
    ],
)
def test_invalid_store_in_a_file_is_reported_with_its_place(tmp_path: Path, storage: str, said: str) -> None:
    evaluators = "evaluators: [{type: contains, value: x}]\n"
    assert said in problems_of(tmp_path / "score.yaml", f"{evaluators}storage: {storage}\n")


def test_every_problem_of_a_store_stands_on_a_line_of_its_own() -> None:
    with pytest.raises(EvalFileError) as caught:
        judged([PLEASE, {**PLEASE, "criterion": "short"}], storage={"type": "json_file", "pth": "x"})
    assert [problem.json_path for problem in caught.value.problems] == ["$.storage", "$.storage.pth"]


def test_secrets_inside_lists_and_objects_are_redacted_in_the_snapshot() -> None:
    own = {
        "token": ["sk-bbbbbbbbbb", "${{ TOKEN }}"],
        "api_keys": {"a": "sk-cccccccccc", "type": "string"},
        "n": {"password": 7},
    }
    scored = {"type": "code_judge", "script": "echo 1", "criterion": "polite", "config": own}
    result = judged([scored, {**PLEASE, "criterion": "short"}], only=["short"])
    config: Any = result.evaluation_config_snapshot["config"]
    assert config["evaluators"][0]["config"] == {
        "token": ["***", "${{ TOKEN }}"],
        "api_keys": {"a": "***", "type": "string"},
        "n": {"password": 7},
    }


def test_criteria_evaluator_can_be_a_member_of_a_composite() -> None:
    class Own:
        type = "Own"

        def evaluate(self, given: EvaluationInput, criteria: object) -> list[EvaluationResult]:  # noqa: ARG002
            return [EvaluationResult("inner", score="please" in given.text)]

    members = EvaluatorConfig("both", "composite", {"evaluators": (Own(),)}, criterion="polite")  # type: ignore[dict-item]
    result = judged([members, {**PLEASE, "criterion": "short"}])
    assert (result.result("polite").value, result.run_errors) == (1.0, ())


@pytest.mark.parametrize(
    ("scale", "meant"), [("likert", "likert5"), ("Likert5", "likert5"), ("pass-fail", "pass/fail")]
)
def test_a_scale_called_almost_like_a_known_one_is_an_error(scale: str, meant: str) -> None:
    config = EvaluationRunConfig(evaluators=[PLEASE])
    given = EvaluationInput("please", (EvaluationCriteria("polite", scale=scale),))
    with pytest.raises(EvalFileError, match=f"'{scale}' is unknown; did you mean '{meant}'"):
        run_evaluation_sync(given, config)
    labelled = EvaluationInput("please", (EvaluationCriteria("polite", scale=scale, labels=("no", "yes")),))
    assert run_evaluation_sync(labelled, config).overall_score == 1.0
    mood = EvaluationInput("please", (EvaluationCriteria("polite", scale="mood"),))
    assert run_evaluation_sync(mood, config).warnings == ()


def test_a_runner_that_is_open_is_not_opened_again() -> None:
    async def open_twice() -> float | None:
        async with EvaluationRunner(EvaluationRunConfig(evaluators=[PLEASE])) as runner:
            with pytest.raises(ConfigError, match="open already"):
                await runner.__aenter__()
            return (await runner.run(EvaluationInput("please", (POLITE,)))).overall_score

    assert asyncio.run(open_twice()) == 1.0


MODEL = {"provider": "openai", "model": "m", "api_key": "k", "base_url": "http://127.0.0.1:1", "max_retries": 0}
ALONE = {"type": "semantic_similarity", "criterion": "polite", "model": MODEL}


def test_similarity_of_meaning_as_the_only_evaluator_is_warned_of() -> None:
    (warning,) = EvaluationRunner(EvaluationRunConfig(evaluators=[ALONE])).warnings
    assert "sees neither a negation nor a changed number" in warning
    assert EvaluationRunner(EvaluationRunConfig(evaluators=[ALONE, PLEASE])).warnings == ()
    given = EvaluationInput("please", criteria=(POLITE,))
    with pytest.warns(UserWarning, match="sees neither a negation nor a changed number"):
        run_evaluation_sync(given, EvaluationRunConfig(evaluators=[ALONE]))


@pytest.mark.parametrize("gates", ["none", ["mean >= 0.5"], []])
def test_the_snapshot_has_the_gates_as_they_were_given(gates: Any) -> None:
    result = judged([PLEASE, {"type": "length", "max": 5, "criterion": "short"}], gates=gates)
    snapshot: Any = result.evaluation_config_snapshot["config"]
    assert snapshot["gates"] == gates


def test_a_wrong_configuration_is_an_error_without_a_context() -> None:
    with pytest.raises(EvalFileError) as caught:
        judged([{"type": "contains", "valu": "x"}])
    assert caught.value.__context__ is None
