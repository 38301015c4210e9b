"""Eval files of AgentV run with the scores that they had there (docs/how-to/agentv-files.md)."""

import json
import re
import shutil
from pathlib import Path

import pytest
from msgspec.structs import replace

from agentv.api import evaluate
from agentv.cli.main import agentv
from agentv.engine.plugins.loading import load_specs
from agentv.loading.check.untrusted import list_uses
from agentv.loading.edit.cases_file import open_cases
from agentv.loading.suites.suites import load_suite
from agentv.types.cases import EvalCase
from agentv.types.errors import ConfigError, EvalFileError
from agentv.types.records.result import CaseResult

FILES = Path(__file__).parent.parent / "fixtures" / "agentv"


def run(tmp_path: Path, generation: str, name: str) -> dict[str, CaseResult]:
    shutil.copytree(FILES, tmp_path / "project")
    report = evaluate(
        str(tmp_path / "project" / generation / "evals" / name), folder=str(tmp_path / ".agentv"), cache="off"
    )
    return {row.slot.eval_id: row for row in report.results}


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> dict[str, CaseResult]:
    return run(tmp_path_factory.mktemp("first"), "agentv-1", "everything.yaml")


@pytest.fixture(scope="module")
def second(tmp_path_factory: pytest.TempPathFactory) -> dict[str, CaseResult]:
    return run(tmp_path_factory.mktemp("second"), "agentv-2", "everything.yaml")


@pytest.fixture(scope="module")
def fourth(tmp_path_factory: pytest.TempPathFactory) -> dict[str, CaseResult]:
    return run(tmp_path_factory.mktemp("fourth"), "agentv-4", "everything.eval.yaml")


def scores(row: CaseResult) -> dict[str, float]:
    assert row.error is None, row.error
    return {each.name: round(each.score, 4) for each in row.evaluator_results}


def test_no_case_of_any_generation_is_an_error(
    first: dict[str, CaseResult], second: dict[str, CaseResult], fourth: dict[str, CaseResult]
) -> None:
    assert {id_: row.error for rows in (first, second, fourth) for id_, row in rows.items() if row.error} == {}


def test_agentv_1_expected_arguments_may_be_a_part(first: dict[str, CaseResult]) -> None:
    assert scores(first["one-strict"]) == {"args": 1.0, "counts": 0.5}


def test_agentv_1_sequences_are_all_or_nothing(first: dict[str, CaseResult]) -> None:
    assert scores(first["two-order"]) == {"order": 0.0}


def test_agentv_1_members_count_by_their_own_weights(first: dict[str, CaseResult]) -> None:
    assert scores(first["answer-combined"]) == {"combined": 0.625, "by-command": 0.5}


def test_suite_evaluators_serve_cases_without_their_own_in_1_and_2(
    first: dict[str, CaseResult], second: dict[str, CaseResult]
) -> None:
    assert scores(first["answer-default"]) == scores(second["answer-default"]) == {"fallback": 0.25}
    assert scores(second["answer-own"]) == {"half": 1.0}


def test_rubric_items_are_required_by_default_from_2(
    first: dict[str, CaseResult], second: dict[str, CaseResult]
) -> None:
    assert scores(first["answer-rubric"]) == scores(second["answer-rubrics"]) == {"rubric": 0.5, "fallback": 0.25}
    unrequired = [
        item.metadata["required"] for item in first["answer-rubric"].evaluator_results[0].results if item.metadata
    ]
    assert unrequired == [False, False]
    required = [
        item.metadata["required"] for item in second["answer-rubrics"].evaluator_results[0].results if item.metadata
    ]
    assert required == [True, True]


def test_agentv_2_expected_keys_must_be_there_and_shares_count(second: dict[str, CaseResult]) -> None:
    found = scores(second["one-args"])
    assert (found["superset"], found["wrong-value"]) == (0.5, 0.0)


def test_agentv_2_limits_without_data_are_not_met(second: dict[str, CaseResult]) -> None:
    found = scores(second["one-args"])
    assert (found["nothing-known"], found["tokens"], found["time"]) == (0.0, 0.5, 1.0)


def test_agentv_2_fields_are_compared_by_weight(second: dict[str, CaseResult]) -> None:
    assert scores(second["answer-fields"]) == {"fields": 0.8}


def test_agentv_2_members_without_a_weight_count_the_same(second: dict[str, CaseResult]) -> None:
    assert scores(second["answer-weights"]) == {"combined": 0.75}


def test_agentv_4_suite_assertions_follow_those_of_the_case(fourth: dict[str, CaseResult]) -> None:
    assert list(scores(fourth["answer-appended"]).items()) == [("equals-no", 0.0), ("suite", 1.0)]
    assert scores(fourth["answer-alone"]) == {"equals-no": 0.0}
    assert scores(fourth["answer-line"]) == {"contains-y": 1.0, "suite": 1.0}
    assert scores(fourth["answer-line-own"]) == {"suite": 1.0}


def test_agentv_4_metadata_of_the_suite_is_merged(fourth: dict[str, CaseResult]) -> None:
    assert fourth["answer-appended"].metadata == {"area": "refunds", "governance": {"risk": "low", "tags": ["a", "b"]}}


def test_agentv_4_texts_count_as_many_as_they_are(fourth: dict[str, CaseResult]) -> None:
    row = fourth["answer-texts"]
    assert [(each.name, each.score, each.weight) for each in row.evaluator_results] == [
        ("criteria", 0.5, 2.0),
        ("contains-all-n", 1.0, 1.0),
        ("suite", 0.0, 1.0),
    ]


def test_agentv_4_templates_are_included(fourth: dict[str, CaseResult]) -> None:
    assert (scores(fourth["answer-included"]), fourth["answer-included"].score) == (
        {"icontains-yes": 1.0, "starts-with-no": 0.0},
        0.75,
    )


def test_agentv_4_an_unmet_requirement_makes_the_case_zero(fourth: dict[str, CaseResult]) -> None:
    row = fourth["answer-required"]
    assert (row.score, row.verdict) == (0.0, "fail")
    assert row.misses[-1] == "the case scores 0: 'contains-no' is required and scored 0.00"


def test_agentv_4_verdict_comes_from_the_threshold(fourth: dict[str, CaseResult]) -> None:
    assert (fourth["answer-limit"].score, fourth["answer-limit"].verdict) == (0.5, "pass")
    assert (fourth["answer-included"].score, fourth["answer-included"].verdict) == (0.75, "fail")


def test_agentv_4_code_graders_read_and_print_its_vocabulary(fourth: dict[str, CaseResult]) -> None:
    row = fourth["answer-contract"]
    assert row.evaluator_results[0].misses == ()
    assert scores(row) == {"code-grader": 1.0, "exits": 1.0, "fails": 0.0}
    assert (row.evaluator_results[1].hits, row.evaluator_results[2].misses) == (("all good",), ("not good",))


def test_agentv_4_prompts_are_criteria_templates_or_scripts(fourth: dict[str, CaseResult]) -> None:
    row = fourth["answer-prompts"]
    assert scores(row) == {"criteria": 1.0, "uri": 1.0, "inline": 0.0, "printed": 1.0}
    prompts = [str((each.evaluator_provider_request or {})["userPrompt"]) for each in row.evaluator_results]
    assert "[[ ## expected_outcome ## ]]\nA lenient reading of the answer" in prompts[0]
    assert "Question: Answer with: yes" in prompts[1]
    assert "{{" not in prompts[1]
    assert "[[ ## expected_outcome ## ]]\nstrict words" in prompts[2]
    assert prompts[3].startswith("lenient and yes {{ output }} stays as it is\n\nReply with one JSON object")


def test_agentv_4_rubric_items_have_ranges_of_ten(fourth: dict[str, CaseResult]) -> None:
    (result,) = fourth["answer-rubrics"].evaluator_results
    assert result.score == pytest.approx((1 + 0 + 2 * 0.6) / 4)
    assert [(item.value, item.scale) for item in result.results] == [
        (1.0, "binary"),
        (0.0, "binary"),
        (0.6, "points10"),
    ]
    assert result.verdict == "fail"


def test_agentv_4_composites_score_shares_and_ignore_own_weights(fourth: dict[str, CaseResult]) -> None:
    row = fourth["answer-composite"]
    assert scores(row) == {"share": 0.6667, "weighted": 0.25}
    assert row.evaluator_results[0].verdict == "pass"


def test_agentv_4_trajectories_score_the_share_of_matches(fourth: dict[str, CaseResult]) -> None:
    assert scores(fourth["two-trajectory"]) == {
        "equal": 0.5,
        "order": 0.6667,
        "superset": 0.5,
        "subset": 0.6667,
        "none": 0.0,
        "fields": 1.0,
    }


def test_agentv_4_metrics_without_data_are_not_met(fourth: dict[str, CaseResult]) -> None:
    assert scores(fourth["two-metrics"]) == {"metrics": 0.5, "explored": 1.0, "price": 0.0}


def test_agentv_4_skills_are_found_in_calls(fourth: dict[str, CaseResult]) -> None:
    assert scores(fourth["skill-used"]) == {"used": 1.0, "not-used": 1.0, "wrongly-used": 0.0}


def test_agentv_4_variables_of_a_case_are_filled(fourth: dict[str, CaseResult]) -> None:
    row = fourth["answer-no-criteria"]
    assert (row.candidate_answer, scores(row)) == ("yes", {"regex-y": 1.0, "is-json": 1.0, "suite": 1.0})


def test_a_folder_of_cases_is_read_with_its_names(tmp_path: Path) -> None:
    shutil.copytree(FILES, tmp_path / "project")
    suite = tmp_path / "project" / "agentv-4" / "evals" / "folder.eval.yaml"
    suite.write_text('assertions: [{type: equals, value: "yes"}]\nexecution: {target: agent}\ntests: ../cases/\n')
    report = evaluate(str(suite), folder=str(tmp_path / ".agentv"))
    assert [(row.slot.eval_id, row.score) for row in report.results] == [("greeting", 1.0)]


def test_a_suite_may_name_several_targets(tmp_path: Path) -> None:
    (tmp_path / "targets.yaml").write_text(
        "targets: [{name: a, provider: mock, response: x}, {name: b, provider: mock, response: y}]"
    )
    suite = tmp_path / "s.yaml"
    suite.write_text(
        "execution: {targets: [a, b], trials: {count: 2}}\n"
        "tests: [{id: q, input: hi, criteria: ok, assertions: [{type: equals, value: x}]}]\n"
    )
    report = evaluate(str(suite), folder=str(tmp_path / ".agentv"))
    assert sorted((row.slot.target, row.slot.trial, row.score) for row in report.results) == [
        ("a", 0, 1.0),
        ("a", 1, 1.0),
        ("b", 0, 0.0),
        ("b", 1, 0.0),
    ]
    assert report.exit_code == 1


def test_a_case_may_name_its_own_targets(tmp_path: Path) -> None:
    names = ", ".join(f"{{name: {name}, provider: mock, response: x}}" for name in "abc")
    (tmp_path / "targets.yaml").write_text(f"targets: [{names}]")
    suite = tmp_path / "s.yaml"
    case = "{id: %s, input: hi, criteria: ok, assertions: [{type: equals, value: x}]%s}"
    cases = ", ".join([case % ("usual", ""), case % ("own", ", execution: {targets: [b, c]}")])
    suite.write_text(f"execution: {{targets: [a, b]}}\ntests: [{cases}]\n")
    report = evaluate(str(suite), folder=str(tmp_path / ".agentv"))
    found = sorted((row.slot.eval_id, row.slot.target) for row in report.results)
    assert found == [("own", "b"), ("own", "c"), ("usual", "a"), ("usual", "b")]
    report = evaluate(str(suite), folder=str(tmp_path / ".agentv"), targets=("a",))
    assert sorted((row.slot.eval_id, row.slot.target) for row in report.results) == [("own", "a"), ("usual", "a")]


@pytest.mark.parametrize(
    ("generation", "name"),
    [("agentv-1", "everything.yaml"), ("agentv-2", "everything.yaml"), ("agentv-4", "everything.eval.yaml")],
)
def test_a_converted_file_means_the_same_in_our_keys(tmp_path: Path, generation: str, name: str) -> None:
    shutil.copytree(FILES, tmp_path / "project")
    source = tmp_path / "project" / generation / "evals" / name
    ours = source.with_name("ours.yaml")
    with pytest.raises(SystemExit) as ended:
        agentv(["convert", str(source), "-o", str(ours), "--to", "agentv"])
    assert ended.value.code in (0, None)
    before, after = (load_suite(path, specs=load_specs()) for path in (source, ours))
    assert (after.dialect, after.warnings) == ("", ())
    without_place = [[replace(case, location=None) for case in suite.cases] for suite in (before, after)]
    assert without_place[0] == without_place[1]
    assert (before.evaluators, before.pass_score, before.target) == (after.evaluators, after.pass_score, after.target)


@pytest.mark.parametrize(
    ("named", "said"),
    [
        ("../../**/case.yaml", "leads outside of"),
        ("../outside.yaml", "leads outside of"),
        ("/etc/*.yaml", "must not be absolute"),
        ("a/**/../x.yaml", "has '..' after a wildcard"),
        ("nothing/*.yaml", "no file matches 'nothing/*.yaml'"),
    ],
)
def test_conversion_reads_no_cases_from_outside(tmp_path: Path, named: str, said: str) -> None:
    (tmp_path / "outside.yaml").write_text("tests: [{id: a, input: hi, criteria: ok}]")
    (tmp_path / "project" / ".git").mkdir(parents=True)
    suite = tmp_path / "project" / "s.eval.yaml"
    suite.write_text(f"tests: ['file://{named}']\n")
    with pytest.raises(ConfigError, match=re.escape(said)):
        agentv(["convert", str(suite), "-o", str(suite.with_name("ours.yaml")), "--to", "agentv"])


@pytest.mark.parametrize("named", ["../outside", "link"])
def test_a_folder_of_cases_outside_of_the_project_is_refused(tmp_path: Path, named: str) -> None:
    case = tmp_path / "outside" / "one" / "case.yaml"
    case.parent.mkdir(parents=True)
    case.write_text("{input: hi, criteria: ok}")
    project = tmp_path / "project"
    (project / ".git").mkdir(parents=True)
    (project / "link").symlink_to(tmp_path / "outside")
    (project / "s.eval.yaml").write_text(f"tests: file://{named}\n")
    with pytest.raises(EvalFileError, match="leads outside of"):
        load_suite(project / "s.eval.yaml", specs=load_specs())
    with pytest.raises(ConfigError, match="leads outside of"):
        agentv(["convert", str(project / "s.eval.yaml"), "-o", str(project / "ours.yaml"), "--to", "agentv"])


def test_a_folder_of_cases_is_converted_as_it_is_run(tmp_path: Path) -> None:
    for name in ("a/case.yaml", "b/case.yml"):
        (tmp_path / "cases" / name).parent.mkdir(parents=True)
        (tmp_path / "cases" / name).write_text("{input: hi, criteria: ok}")
    source, ours = tmp_path / "s.eval.yaml", tmp_path / "ours.yaml"
    source.write_text(f"tests: file://{tmp_path}/cases\n")
    (tmp_path / ".git").mkdir()
    with pytest.raises(SystemExit):
        agentv(["convert", str(source), "-o", str(ours), "--to", "agentv"])
    for path in (source, ours):
        assert [case.id for case in load_suite(path, specs=load_specs()).cases if isinstance(case, EvalCase)] == [
            "a",
            "b",
        ]


def test_a_run_names_the_generation_first(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "targets.yaml").write_text("targets: [{name: default, provider: mock, response: x}]")
    (tmp_path / "s.yaml").write_text(
        "tests: [{id: a, input: hi, criteria: ok, foo: 1, assert: [{type: equals, value: x}]}]"
    )
    with pytest.raises(SystemExit):
        agentv(["run", "s.yaml"])
    out, err = capfd.readouterr()
    lines = (out + err).splitlines()
    assert "note: s.yaml: AgentV 4 eval file, 1 key has no meaning here" in lines[:3]


def test_what_describes_a_file_is_stored_with_the_run(tmp_path: Path) -> None:
    (tmp_path / "targets.yaml").write_text("targets: [{name: default, provider: mock, response: x}]")
    suite = tmp_path / "s.yaml"
    suite.write_text('version: "1.0"\nauthor: me\ntests: [{id: a, input: hi, criteria: ok, assert: [{type: is-json}]}]')
    evaluate(str(suite), folder=str(tmp_path / ".agentv"))
    (run_file,) = (tmp_path / ".agentv" / "runs").glob("*/run.json")
    assert json.loads(run_file.read_text())["plan"]["suites"][0]["about"] == {"version": "1.0", "author": "me"}


def test_the_budget_of_a_suite_limits_the_run(tmp_path: Path) -> None:
    (tmp_path / "targets.yaml").write_text(
        "targets: [{name: paid, provider: mock, response: x, price: {input_per_million: 1, output_per_million: 1}}]"
    )
    suite = tmp_path / "s.yaml"
    suite.write_text("execution: {budget_usd: 2}\ntests: [{id: a, input: hi, criteria: ok, assert: [{type: is-json}]}]")
    evaluate(str(suite), folder=str(tmp_path / ".agentv"))
    (run_file,) = (tmp_path / ".agentv" / "runs").glob("*/run.json")
    assert json.loads(run_file.read_text())["plan"]["options"]["budget_usd"] == 2.0


def test_templates_are_listed_for_a_review(tmp_path: Path) -> None:
    shutil.copytree(FILES, tmp_path / "project")
    folder = tmp_path / "project" / "agentv-4"
    (folder / ".agentv" / "templates" / "polite.yaml").write_text(
        "assertions: [{type: code-grader, command: [rm, everything]}]"
    )
    uses = list_uses([str(folder / "evals" / "everything.eval.yaml")], cwd=tmp_path, specs=load_specs())
    assert "everything" in [use.value for use in uses if use.kind == "command"]


def test_files_of_agentv_are_not_extended_in_our_keys() -> None:
    with pytest.raises(EvalFileError, match="an eval file of AgentV 4, to which no keys or cases can be added"):
        open_cases(FILES / "agentv-4" / "evals" / "everything.eval.yaml", load_specs())
