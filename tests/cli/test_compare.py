"""`agentv compare`: two stored runs, side by side."""

import json
from collections.abc import Callable, Sequence
from html import unescape
from typing import Any

import pytest
from msgspec.structs import replace
from tests.support.carrying import Project
from tests.support.rows import make_row
from tests.support.stored import at_noon, make_case, make_run

from agentv.storage.run.find import runs_folder
from agentv.storage.run.folder import RunFolder
from agentv.types.failures import Failure
from agentv.types.records.result import CaseResult
from agentv.types.records.run import RunRecord
from agentv.types.results import RunState

Keep = Callable[..., None]
BROKEN = Failure("server_error", "HTTP 503")


@pytest.fixture
def keep(project: Project) -> Keep:
    """Return what keeps rows as a finished run."""

    def keep_run(
        run_id: str, rows: Sequence[CaseResult], key: str = "v1:a", state: RunState = "finished", **given: Any
    ) -> None:
        store = RunFolder(runs_folder(project.folder / ".agentv"), run_id, clock=at_noon)
        run: RunRecord = make_run(run_id=run_id, **{"name": None, **given})
        store.begin(run)
        for row in rows:
            store.append_case(make_case(suite=row.slot.suite, eval_id=row.slot.eval_id, case_key=key))
            store.append(row)
        store.close(state)

    return keep_run


def scores(*values: float, **given: Any) -> list[CaseResult]:
    return [make_row(f"case-{number}", score=value, **given) for number, value in enumerate(values)]


def test_the_last_line_is_the_finding(project: Project, keep: Keep) -> None:
    keep("r1", scores(*[0.2] * 8))
    keep("r2", scores(*[0.9] * 8))
    keep("r3", scores(*[0.9] * 7, 0.8))
    last = {pair: project.call("compare", *pair.split())[1].splitlines()[-1] for pair in ("r1 r2", "r2 r1", "r2 r3")}
    assert last == {
        "r1 r2": "8 cases rose, none fell: better",
        "r2 r1": "8 cases fell, none rose: worse",
        "r2 r3": "1 case fell, none rose: no significant difference (n needed: 80)",
    }


def test_without_a_run_the_latest_is_compared_with_the_one_before_it_of_its_files(project: Project, keep: Keep) -> None:
    keep("r1", scores(*[0.9] * 8))
    keep("r2", scores(1.0), plan={"suites": [{"path": "evals/other.yaml", "sha256": "b" * 64}]})
    keep("r3", scores(*[0.2] * 8))
    code, said = project.call("compare")
    assert (code, said.splitlines()[:2], said.splitlines()[-1]) == (
        0,
        ["before  r1", "after   r3"],
        "8 cases fell, none rose: worse",
    )
    assert "one is enough with --baseline" in project.call("compare", "r1")[1]


def test_of_a_case_with_trials_the_answers_that_differ_most_are_shown(project: Project, keep: Keep) -> None:
    def trials(run: str, *values: float) -> list[CaseResult]:
        rows = [make_row("case", score=value, trial=trial) for trial, value in enumerate(values)]
        return [replace(row, candidate_answer=f"{run} {row.score:g}") for row in rows]

    keep("r1", trials("first", 0.5, 0.0, 1.0))
    keep("r2", trials("then", 0.5, 0.0, 0.25))
    shown = {pair: project.call("compare", *pair.split())[1].splitlines() for pair in ("r1 r2", "r2 r1")}
    answers = {
        pair: [line.partition("│ ")[2] for line in lines if line.startswith(("  before ", "  after "))]
        for pair, lines in shown.items()
    }
    assert answers == {"r1 r2": ["first 1", "then 0"], "r2 r1": ["then 0", "first 1"]}


def test_all_that_two_runs_differ_in(project: Project, keep: Keep) -> None:
    target = {"name": "t", "provider": "openai", "settings": {"model": "small"}}
    before = {"targets": [target], "suites": [{"path": "evals/s.yaml", "sha256": "a" * 64}]}
    after = {**before, "targets": [{**target, "settings": {"model": "large", "system_prompt": "Be \x1b[31mkind."}}]}
    keep("r1", [*scores(1.0, 0.5, 0.2, 0.9), make_row("gone")], plan=before)
    broken = make_row("case-3", score=None, error=BROKEN)
    keep("r2", [*scores(0.5, 0.9, 0.2), broken, make_row("new")], plan=after, key="v1:b", agentv_version="0.2.0")
    assert (
        project.call("compare", "r1", "r2")[1]
        == """\
before  r1
after   r2
paired  3 cases scored in both

fell: 1
✗ case-0  1.00 -> 0.50  -0.50  content changed
  question │ May I return order 7?
  before   │ (empty)
  after    │ (empty)
  reason   │ tone: 0.50

rose: 1
✓ case-1  0.50 -> 0.90  +0.40  content changed
  question      │ May I return order 7?
  before        │ (empty)
  after         │ (empty)
  reason before │ tone: 0.50
  reason after  │ passed

            before   after  difference            95 % CI  p  cases
mean score    0.57    0.53       -0.03     -1.00 to +1.00  1      3
pass rate   33.3 %  33.3 %      0.0 pp  -69.2 to +69.2 pp  1      3
tone          0.57    0.53       -0.03     -1.00 to +1.00  1      3

1 win, 1 loss, 1 tie at a threshold of 0.1
1 pass more often, 1 less often
3 cases: too few to detect any difference; at least 6 are needed

differences in setup
  model of target t: small -> large
  system_prompt of target t: none -> Be kind.
  agentv: 0.1.0 -> 0.2.0

only before: 1
  gone
only after: 1
  new
without a result after: 1
  case-3
content changed: 3
  case-0, case-1, case-2

1 case fell, 1 rose: no significant difference (n needed: 1,445)
"""
    )


def test_a_later_generation_of_a_row_counts_and_the_earlier_does_not(project: Project, keep: Keep) -> None:
    keep("r1", scores(0.5, 0.5))
    keep("r2", [*scores(0.0, 0.5), replace(make_row("case-0", score=1.0), generation=1)])
    assert "+0.25" in project.call("compare", "r1", "r2")[1]


def test_gates_decide_with_the_codes_of_a_run(project: Project, keep: Keep) -> None:
    keep("r1", scores(1.0, 1.0, 1.0))
    keep("r2", scores(1.0, 1.0, 0.5))
    keep("r3", [*scores(1.0, 1.0), make_row("case-2", score=None, error=BROKEN)])
    keep("r4", [*scores(1.0, target="a"), *scores(1.0, target="b")])

    def ends(*options: str) -> tuple[int, str]:
        code, said = project.call("compare", *options)
        return code, said.splitlines()[-3] if "--gate" in options else ""

    assert ends("r1", "r2") == (0, "")
    assert ends("r1", "r2", "--gate", "regressions <= 0") == (
        1,
        "FAIL: regressions is 1, not <= 0. Exit code 1.",
    )
    assert ends("r1", "r2", "--gate", "mean_difference >= -20%", "--gate", "evaluator(tone).difference > -1")[0] == 0
    assert ends("r1", "r3") == (0, "")
    assert ends("r1", "r3", "--gate", "regressions <= 0") == (
        3,
        "INCOMPLETE: 1 case with an error; the gate holds on the 2 judged cases. Exit code 3.",
    )
    assert ends("r1", "r3", "--gate", "regressions <= 0", "--max-errors", "1")[0] == 0
    code, said = project.call("compare", "r1", "r4")
    nothing = "NOTHING SELECTED: targets differ: t before, a, b after; --targets A B pairs two of them. Exit code 5."
    assert (code, said.splitlines()[-3:]) == (5, [nothing, "", "nothing was compared"])
    assert project.call("compare", "r1", "r1", "--gate", "improvement >= 1")[0] == 4


def test_a_target_that_the_first_run_lacks_leaves_gates_for_change_undecided(project: Project, keep: Keep) -> None:
    keep("r1", [*scores(1.0, 1.0, target="a"), *scores(1.0, 1.0, target="b")])
    keep("r2", [*scores(1.0, 1.0, target="a"), *scores(0.0, 0.0, target="c")])
    keep("r3", [*scores(1.0, 0.0, target="a"), *scores(0.0, 0.0, target="c")])
    keep("r4", scores(1.0, 1.0, target="a"))

    def ends(*options: str) -> tuple[int, str]:
        code, said = project.call("compare", *options)
        return code, said.splitlines()[-3]

    added = "2 cases are not in the baseline: 0 passed, 2 failed. Exit code"
    for gate in ("not worse", "regressions <= 0"):
        name = gate.removesuffix(" <= 0")
        why = f"{name} could not be measured (target 'c' is not in the baseline), so {gate!r} is undecided"
        assert ends("r1", "r2", "--gate", gate) == (3, f"INCOMPLETE: {why}. {added} 3.")
        assert ends("r1", "r4", "--gate", gate)[0] == 0
    assert ends("r1", "r3", "--gate", "regressions <= 0") == (1, f"FAIL: regressions is 1, not <= 0. {added} 1.")
    assert ends("r1", "r2", "--gate", "mean >= 0.5") == (0, f"PASS: mean is 1, as required (>= 0.5). {added} 0.")


def test_an_unfinished_run_passes_no_gate_and_is_reported(project: Project, keep: Keep) -> None:
    keep("r1", scores(1.0, 1.0, 0.0))
    keep("r2", scores(1.0, 1.0), state="interrupted")
    code, said = project.call("compare", "r1", "r2")
    assert (code, said.splitlines()[1]) == (0, "after   r2, interrupted before its end")
    code, said = project.call("compare", "r1", "r2", "--gate", "regressions <= 0")
    assert (code, said.splitlines()[-3]) == (
        3,
        "INCOMPLETE: r2 was interrupted before its end. 2 cases are complete. Exit code 3.",
    )
    assert project.call("compare", "r2", "r1", "--gate", "regressions <= 0", "--max-errors", "9")[0] == 3
    assert project.call("compare", "r1", "r2", "--gate", "mean >= 2%", "--gate", "mean_difference >= 1")[0] == 1
    assert json.loads(project.call("compare", "r1", "r2", "--json")[1])["after"]["state"] == "interrupted"
    assert "the baseline has only its finished cases" in project.call("baseline", "save", "r2")[1]
    assert project.call("compare", "baseline.jsonl", "r1", "--gate", "regressions <= 0")[0] == 3


def test_a_gate_on_an_unknown_evaluator_is_refused_at_its_column(project: Project, keep: Keep) -> None:
    keep("r1", scores(1.0))
    code, said = project.call("compare", "r1", "r1", "--gate", "evaluator(tome).mean>0")
    assert (code, said.splitlines()[0]) == (
        4,
        "error: gate 'evaluator(tome).mean>0', column 11: unknown evaluator 'tome'; known: tone. Did you mean 'tone'?",
    )
    keep("r2", [make_row("case-0", score=None, error=BROKEN)])
    assert project.call("compare", "r2", "r2", "--gate", "evaluator(tome).mean >= 0.5")[0] == 3


def test_json_has_every_case_and_the_reasons_of_those_that_changed(project: Project, keep: Keep) -> None:
    keep("r1", scores(1.0, 0.5))
    keep("r2", scores(0.25, 0.5))
    code, said = project.call("compare", "r1", "r2", "--json")
    output = json.loads(said)
    assert (code, output["schema"], output["wins"], output["losses"], output["ties"]) == (
        0,
        "agentv-compare-1",
        0,
        1,
        1,
    )
    assert output["measures"][0]["difference"] == -0.375
    assert [case["eval_id"] for case in output["cases"]] == ["case-0", "case-1"]
    assert output["regressed"][0]["reason_after"] == "tone: 0.25"
    assert output["regressed"][0]["question"] == "May I return order 7?"
    assert output["regressed"][0]["answer_before"] == ""


def test_every_format_for_people_has_the_same_facts(project: Project, keep: Keep) -> None:
    keep("r1", [*scores(1.0, 0.2), make_row("gone"), make_row("late")], key="v1:a")
    keep("r2", [*scores(0.5, 0.9), make_row("late", score=None, error=BROKEN)], key="v1:b", state="stopped")
    call = ("compare", "r1", "r2", "--gate", "regressions <= 0", "--list", "0")
    for name in ("text", "md", "markdown", "html"):
        shown = unescape(project.call(*call, "--format", name)[1]).replace("`", "")
        for fact in (
            "r2, stopped before its end",
            "2 cases scored in both",
            "FAIL: regressions is 1, not <= 0. 1 case with an error.",
            "mean score",
            "1 win, 1 loss, 0 ties at a threshold of 0.1",
            "and 1 more: --list 1",
            "only before: 1",
            "without a result after: 1",
            "content changed: 2",
        ):
            assert fact in shown, name
    listed = [project.call(*call[:-1], "9", "--format", name)[1] for name in ("text", "md", "html")]
    assert all("case-0" in shown and shown.count("content changed") == 3 for shown in listed)


def test_a_page_and_markdown_have_the_matrix_and_the_details_of_each_run(project: Project, keep: Keep) -> None:
    for number, run_id in enumerate(("r1", "r2", "r3")):
        keep(run_id, scores(*[0.2 + 0.3 * number] * 6))
    for name in ("md", "html"):
        shown = unescape(project.call("compare", "r1", "r2", "r3", "--format", name)[1])
        assert shown.count("6 cases scored in both") == 2
        assert shown.count("<details>") >= 2
        assert "2 runs, each compared separately" in shown
        assert "regressed" in shown


def test_an_unknown_format_is_refused_with_the_known_ones(project: Project) -> None:
    code, said = project.call("compare", "r1", "r2", "--format", "pdf")
    assert (code, "'text', 'json', 'agentv-ts', 'html', 'md'" in said) == (4, True)


def test_the_older_json_and_its_exit_code(project: Project, keep: Keep) -> None:
    keep("r1", [*scores(1.0, 0.5), make_row("gone")])
    keep("r2", scores(0.5, 0.75))
    code, said = project.call("compare", "r1", "r2", "--format", "agentv-ts")
    assert code == 1
    assert json.loads(said) == {
        "matched": [
            {"evalId": "case-0", "score1": 1.0, "score2": 0.5, "delta": -0.5, "outcome": "loss"},
            {"evalId": "case-1", "score1": 0.5, "score2": 0.75, "delta": 0.25, "outcome": "win"},
        ],
        "unmatched": {"file1": 1, "file2": 0},
        "summary": {"total": 5, "matched": 2, "wins": 1, "losses": 1, "ties": 0, "meanDelta": -0.125},
    }
    assert project.call("compare", "r2", "r1", "--format", "agentv-ts")[0] == 0
    assert project.call("compare", "r1", "r1", "--format", "agentv-ts")[0] == 0


def test_two_targets_of_one_run(project: Project, keep: Keep) -> None:
    keep("r1", [*scores(*[0.2] * 6, target="a"), *scores(*[0.9] * 6, target="b")])
    code, said = project.call("compare", "r1", "--targets", "a", "b")
    assert (code, said.splitlines()[0], said.splitlines()[-1]) == (0, "before  r1 a", "6 cases rose, none fell: better")
    code, said = project.call("compare", "r1", "--targets", "a", "c")
    assert (code, said) == (4, "error: r1 has no result of target 'c'; its targets: a, b\n")


def test_several_runs_are_a_matrix_corrected_for_their_number(project: Project, keep: Keep) -> None:
    keep("r1", scores(*[0.2] * 6))
    keep("r2", scores(*[0.9] * 6))
    keep("r3", scores(*[0.2] * 6))
    code, said = project.call("compare", "r1", "r2", "r3")
    assert (code, said) == (
        0,
        """\
before  r1
after   2 runs, each compared separately

run  mean  difference                  95 % CI      p  wins  losses  regressed  cases
r2   0.90       +0.70  -1.00 to +1.00 (97.5 %)  0.062     6       0          0      6
r3   0.20        0.00  -0.46 to +0.46 (97.5 %)      1     0       0          0      6

Details: agentv compare r1 r2
Details: agentv compare r1 r3

r2: 6 cases rose, none fell: no significant difference (n needed: more than 6)
r3: no case changed: no significant difference (n needed: unknown, equal means)
""",
    )


def test_runs_of_a_matrix_have_distinct_labels(project: Project, keep: Keep) -> None:
    ids = [f"20261120T15024{number}.647-49{number}b66" for number in range(5)]
    for run_id, name in zip(ids, ("first", "quick", None, "twice", "twice"), strict=True):
        keep(run_id, scores(*[0.5] * 6), name=name, state="stopped" if name == "quick" else "finished")
    lines = project.call("compare", *ids)[1].splitlines()
    assert [line.split()[0] for line in lines[4:8]] == ["quick", "492b66", "493b66", "494b66"]
    assert lines[9] == f"Details: agentv compare {ids[0]} {ids[1]}"
    assert lines[14] == (
        "quick: no case changed: no significant difference (n needed: unknown, equal means), stopped before its end"
    )


def test_a_name_of_a_run_that_an_error_lists_reaches_no_terminal_as_it_is(project: Project, keep: Keep) -> None:
    row = make_row("case-0")
    evil = replace(row.evaluator_results[0], name="to\x1b]0;ne")
    keep("r1", [replace(row, evaluator_results=(evil,))])
    code, said = project.call("compare", "r1", "r1", "--gate", "evaluator(tone).mean >= 0.5")
    assert (code, "\x1b" in said, r"known: to\x1b]0;ne" in said) == (4, False, True)


def test_a_tag_names_the_newest_run_that_has_it(project: Project, keep: Keep) -> None:
    keep("r1", scores(1.0), tags=("release",))
    keep("r2", scores(0.0), tags=("release",))
    keep("r3", scores(0.0))
    assert project.call("compare", "release", "r3")[1].splitlines()[0] == "before  r2"
    code, said = project.call("compare", "nothing", "r3")
    assert (code, "there is no run 'nothing'" in said) == (4, True)


def test_the_former_name_of_the_older_json_is_accepted_with_a_warning(project: Project, keep: Keep) -> None:
    keep("r1", scores(1.0))
    code, said = project.call("compare", "r1", "r1", "--format", "agentv")
    assert code == 0
    assert "warning: --format agentv is deprecated; its name is now agentv-ts" in said
    assert '"matched": 1,' in said
