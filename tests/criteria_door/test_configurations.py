"""Configurations of the criteria door: what is wrong is told before anything runs, what is not used is not needed."""

from pathlib import Path
from typing import Any

import pytest

from agentv import (
    AggregatedEvaluationResult,
    ConfigError,
    EvalFileError,
    EvaluationCriteria,
    EvaluationInput,
    EvaluationRunConfig,
    TargetConfig,
    run_evaluation_sync,
)

POLITE, SHORT = EvaluationCriteria("polite"), EvaluationCriteria("short")
PLEASE = {"type": "contains", "value": "please", "criterion": "polite"}
ASKED = {"type": "llm_judge", "criterion": "short"}
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
    ("asked", "judge"),
    [(ASKED, None), (ASKED, "nobody"), (ASKED, NO_KEY), ({**ASKED, "judge": NO_KEY}, None)],
    ids=["no judge", "unknown judge", "a judge without its key", "a judge of its own without its key"],
)
def test_a_judge_that_the_selection_leaves_out_need_not_be_there(asked: dict[str, Any], judge: Any) -> None:
    assert judged([PLEASE, asked], judge=judge, only="free").overall_score == 1.0
    assert judged([PLEASE, asked], judge=judge, only=["polite"]).overall_score == 1.0
    with pytest.raises(EvalFileError):
        judged([PLEASE, asked], judge=judge)
    with pytest.raises(EvalFileError):
        judged([PLEASE, asked], judge=judge, only=["llm_judge"])


def test_a_selection_of_nobody_is_refused() -> None:
    with pytest.raises(
        EvalFileError, match=r"\$.only\[1\]  'contians' is no evaluator's name or type here; there are: "
    ):
        judged([PLEASE, {**PLEASE, "criterion": "short"}], only=["polite", "contians"])
    with pytest.raises(ConfigError, match="`only` selects nobody"):
        judged([PLEASE], only=[])


def test_a_file_tells_of_entries_that_are_no_evaluators_and_of_a_selection_of_nobody(tmp_path: Path) -> None:
    said = problems_of(
        tmp_path / "score.yaml",
        "evaluators:\n  - {type: contains, value: x}\n  - 42\n  -\n  - [contains]\nonly:\n  - contains\n  - contians\n",
    )
    for place in (":3:5  $.evaluators[1]", ":4:4  $.evaluators[2]", ":5:5  $.evaluators[3]"):
        assert f"score.yaml{place}  must be an object with name and type" in said
    assert "score.yaml:8:5  $.only[1]  is no evaluator's name or type here" in said
    assert "$.only[0]" not in said
