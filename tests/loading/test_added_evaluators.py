"""Evaluators of a case: they replace those of the file, or are added to them."""

from pathlib import Path

import pytest

from agentv.engine.plugins.loading import load_specs
from agentv.loading.check.check import check_paths
from agentv.loading.suites.suites import load_suite
from agentv.scoring.results.applicable import applicable_evaluators
from agentv.types.cases import EvalCase, EvaluatorConfig
from agentv.types.errors import EvalFileError

SPECS = load_specs()
SUITE = "evaluators: [{name: polite, type: contains, value: please}]\n"
OWN = "{name: amount, type: contains, value: '20'}"


def names_of(folder: Path, text: str) -> list[list[str]]:
    path = folder / "suite.yaml"
    path.write_text(text)
    suite = load_suite(path, specs=SPECS)
    cases = [case for case in suite.cases if isinstance(case, EvalCase)]
    lists = [applicable_evaluators(case, suite)[0] for case in cases]
    return [[each.name for each in listed if isinstance(each, EvaluatorConfig)] for listed in lists]


def case(key: str, value: str) -> str:
    return f"evalcases: [{{id: a, input: hi, {key}: {value}}}]\n"


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (SUITE + case("evaluators", f"[{OWN}]"), ["amount"]),
        (SUITE + case("add_evaluators", f"[{OWN}]"), ["polite", "amount"]),
        (SUITE + case("rubrics", "[Says hi]").replace("rubrics", f"add_evaluators: [{OWN}], rubrics"),
         ["rubric", "polite", "amount"]),
        ("evaluator: is_json\n" + case("add_evaluators", f"[{OWN}]"), ["is_json", "amount"]),
        (case("add_evaluators", f"[{OWN}]"), ["amount"]),
        (
            "vars: {word: please}\nevaluators: [{name: polite, type: contains, value: '{{ word }}'}]\n"
            + case("add_evaluators", f"[{OWN}]"),
            ["polite", "amount"],
        ),
    ],
    ids=["replaced", "added", "rubrics", "single form", "none of the file", "variables"],
)  # fmt: skip
def test_evaluators_of_a_case(text: str, names: list[str], tmp_path: Path) -> None:
    assert names_of(tmp_path, text) == [names]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (SUITE + case("evaluators", f"[{OWN}], add_evaluators: [{OWN}]"), "this case has a list of its own"),
        (SUITE + case("add_evaluators", "[{name: polite, type: is_json}]"), "has an evaluator named 'polite'"),
        (SUITE + case("add_evaluators", "{name: polite}"), "must be a list of evaluators"),
    ],
    ids=["both", "name", "no list"],
)
def test_additions_that_cannot_be_made_are_refused(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(EvalFileError, match=message):
        names_of(tmp_path, text)


def notes_of(folder: Path, text: str) -> tuple[str, ...]:
    path = folder / "suite.yaml"
    path.write_text(text)
    checked = check_paths([str(path)], cwd=folder, env={}, specs=SPECS)
    assert checked.problems == ()
    return tuple(note.removeprefix(str(path)) for note in checked.notes)


def test_check_notes_once_per_file_that_evaluators_are_replaced(tmp_path: Path) -> None:
    cases = f"evalcases:\n- {{id: a, input: hi}}\n- {{id: b, input: hi, evaluators: [{OWN}]}}\n"
    both = f"{cases}- {{id: c, input: hi, execution: {{evaluators: [{OWN}]}}}}\n"
    said = "evaluators of {} own, which replace those of the file; `add_evaluators` adds to them"
    assert notes_of(tmp_path, SUITE + cases) == (f":4: 1 case has {said.format('its')}",)
    assert notes_of(tmp_path, SUITE + both) == (f":4: 2 cases have {said.format('their')}",)


@pytest.mark.parametrize("text", [SUITE + case("add_evaluators", f"[{OWN}]"), case("evaluators", f"[{OWN}]")])
def test_check_notes_nothing_if_no_evaluators_are_replaced(text: str, tmp_path: Path) -> None:
    assert notes_of(tmp_path, text) == ()
