"""`agentv compare` of prompts and targets, by group, and of independent samples."""

import json
import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

import pytest
from msgspec.structs import replace
from tests.support.carrying import Project
from tests.support.rows import make_row
from tests.support.stored import at_noon, make_case, make_run

from agentv.storage.run.find import runs_folder
from agentv.storage.run.folder import RunFolder
from agentv.types.evaluation import EvaluatorResult
from agentv.types.records.result import CaseResult

Keep = Callable[[str, Sequence[CaseResult]], None]


@pytest.fixture
def keep(project: Project) -> Keep:
    """Return a function that stores rows as a finished run."""

    def keep_run(run_id: str, rows: Sequence[CaseResult]) -> None:
        store = RunFolder(runs_folder(project.folder / ".agentv"), run_id, clock=at_noon)
        store.begin(make_run(run_id=run_id, name=None))
        for row in rows:
            store.append_case(make_case(suite=row.slot.suite, eval_id=row.slot.eval_id, case_key="v1:a"))
            store.append(row)
        store.close("finished")

    return keep_run


def row(case: str, score: float, *, prompt: str | None = None, target: str = "t", **given: Any) -> CaseResult:
    made = make_row(case, score=score, target=target)
    return replace(made, slot=replace(made.slot, prompt=prompt), prompt=prompt, **given)


def matrix(**scores: float) -> list[CaseResult]:
    """Return eight cases with two prompts and two targets; `scores` by prompt and target, as `v1_small`."""
    return [
        row(
            f"case-{number}",
            score,
            prompt=name.partition("_")[0],
            target=name.partition("_")[2],
            tags=("refund",) if number < 6 else ("order",),
            metadata={"team": "core"},
        )
        for number in range(8)
        for name, score in scores.items()
    ]


MATRIX = {"v1_small": 0.2, "v2_small": 0.9, "v1_large": 0.5, "v2_large": 0.4}


def said(project: Project, *options: str, code: int = 0) -> str:
    found, text = project.call("compare", *options)
    assert found == code, text
    return text


def test_two_prompts_of_the_latest_run_are_paired_by_case_and_target(project: Project, keep: Keep) -> None:
    keep("r1", matrix(**MATRIX))
    text = said(project, "--prompts", "v1", "v2")
    assert text.splitlines()[:3] == [
        "before  r1 v1",
        "after   r1 v2",
        "paired  8 cases scored in both, 16 pairs of case and target",
    ]
    assert next(line.split() for line in text.splitlines() if line.startswith("mean score")) == [
        "mean",
        "score",
        "0.35",
        "0.65",
        "+0.30",
        "+0.20",
        "to",
        "+0.53",
        "0.0078",
        "8",
    ]
    assert text.splitlines()[-1] == "8 cases rose, none fell: better"
    assert said(project, "r1", "--prompts", "v2", "v1").splitlines()[-1] == "8 cases fell, none rose: worse"


def test_two_targets_of_the_latest_run_and_two_prompts_of_two_runs(project: Project, keep: Keep) -> None:
    keep("r1", matrix(v1_small=0.9))
    keep("r2", matrix(v2_small=0.2, v2_large=0.9))
    assert said(project, "--targets", "large", "small").splitlines()[-1] == "8 cases fell, none rose: worse"
    assert "before  r1 v1\nafter   r2 v2\n" in said(project, "r1", "r2", "--prompts", "v1", "v2")


def test_wrong_contrasts_are_refused_with_what_there_is(project: Project, keep: Keep) -> None:
    keep("r1", matrix(**MATRIX))
    keep("r2", [row("a", 1.0)])

    def refused(*options: str) -> str:
        return said(project, *options, code=4)

    assert "has no result of prompt 'v3'; its prompts: v1, v2" in refused("r1", "--prompts", "v1", "v3")
    assert "has no result of prompt 'v1'; its prompts: none" in refused("r2", "--prompts", "v1", "v2")
    assert "cannot be combined" in refused("r1", "--prompts", "v1", "v2", "--targets", "small", "large")
    assert "cannot be combined; group by another KEY" in refused("r1", "--prompts", "v1", "v2", "--by", "prompt")
    assert "no result has 'metadata.tem' to group by" in refused("r1", "--prompts", "v1", "v2", "--by", "tem")
    assert "grouped by criterion" in refused("r1", "--prompts", "v1", "v2", "--by", "criterion")
    assert "exactly two runs" in refused("r1", "r1", "r1", "--by", "tag")
    assert "compares pairs of whole runs only" in refused("r1", "r1", "--unpaired", "--format", "agentv-ts")


def test_a_baseline_groups_by_what_it_has(project: Project, keep: Keep) -> None:
    keep("r1", matrix(**MATRIX))
    project.call("baseline", "save", "r1")
    refused = "baseline.jsonl is a baseline, which has no tag to group by; name the run instead"
    assert said(project, "baseline.jsonl", "r1", "--by", "tag", code=4).strip() == f"error: {refused}"
    lines = said(project, "baseline.jsonl", "r1", "--by", "prompt").splitlines()
    assert [line.split("  ")[0] for line in lines if line.startswith("large")] == [
        "large · v1",
        "large · v2",
    ]


def test_the_groups_are_one_table_after_the_cases_that_changed(project: Project, keep: Keep) -> None:
    keep("r1", matrix(**MATRIX))
    text = said(project, "--prompts", "v1", "v2", "--by", "tag", "--list", "1")
    assert (
        text
        == """\
before  r1 v1
after   r1 v2
groups  4 by tag and target, each compared separately

fell: 8 pairs of case and target
✗ case-0 · large  0.50 -> 0.40  -0.10  refund
  before        │ (empty)
  after         │ (empty)
  reason before │ tone: 0.50
  reason after  │ tone: 0.40
and 7 more: --list 8

rose: 8 pairs of case and target
✓ case-0 · small  0.20 -> 0.90  +0.70  refund
  before        │ (empty)
  after         │ (empty)
  reason before │ tone: 0.20
  reason after  │ passed
and 7 more: --list 8

tag             cases  before  after  difference       98.8 % CI     p  fell  rose
refund · small      6    0.20   0.90       +0.70  -1.00 to +1.00  0.12     0     6
refund · large      6    0.50   0.40       -0.10  -1.00 to +1.00  0.12     6     0
order · small       2    0.20   0.90       +0.70  -1.00 to +1.00     1     0     2
order · large       2    0.50   0.40       -0.10  -1.00 to +1.00     1     2     0

8 pairs fell, 8 rose; no significant difference: refund · small (n needed: more than 6), \
refund · large (n needed: more than 6), order · small (n needed: 6), order · large (n needed: 6)
"""
    )
    for format_ in ("text", "md", "html"):
        assert "case-0" in said(project, "--prompts", "v1", "v2", "--by", "tag", "--format", format_)


def test_the_last_line_names_the_groups_that_changed(project: Project, keep: Keep) -> None:
    keep("r1", matrix(**MATRIX))
    lines = said(project, "--prompts", "v1", "v2", "--by", "target").splitlines()
    assert lines[-1] == "8 pairs fell, 8 rose; worse: large; better: small"
    assert "✗ case-0 · large  0.50 -> 0.40  -0.10" in lines
    # A p of 2 / 2**8 for each, times two.
    assert [line.split()[-3] for line in lines if line.startswith(("small ", "large "))] == ["0.016", "0.016"]


def test_the_last_line_has_the_number_of_cases_that_each_group_needs(project: Project, keep: Keep) -> None:
    v1 = {"small": (0.5, 0.5, 0.5, 0.5), "large": (0.1, 0.2, 0.3, 0.4)}
    v2 = {"small": (0.5, 0.5, 0.5, 0.5), "large": (0.2, 0.2, 0.4, 0.3)}
    for name, side in (("r1", v1), ("r2", v2)):
        scores = [(f"case-{place}", target, score) for target, all_ in side.items() for place, score in enumerate(all_)]
        keep(name, [row(case, score, target=target) for case, target, score in scores])
    *_, last = said(project, "r1", "r2", "--by", "target").splitlines()
    assert re.fullmatch(
        r"2 pairs rose, 1 fell; no significant difference: small \(n needed: unknown, equal means\), "
        r"large \(n needed: [\d,]+\)",
        last,
    )
    *_, last = said(project, "r1", "r1", "--by", "target").splitlines()
    ending = "no significant difference in any group (n needed: unknown, equal means)"
    assert last == f"no pair changed; {ending}"


@pytest.mark.parametrize(
    ("by", "titles"),
    [
        ("team", ["metadata.team", "core"]),
        ("metadata.team", ["metadata.team", "core"]),
        ("week", ["week", "2026-W01", "2026-W02"]),
        ("evaluator", ["evaluator", "tone", "facts"]),
        ("suite", ["suite", "evals/s.yaml"]),
    ],
)
def test_groups_by_metadata_week_evaluator_and_suite(project: Project, keep: Keep, by: str, titles: list[str]) -> None:
    facts = EvaluatorResult(name="facts", type="contains", score=0.0, verdict="fail")
    rows = [
        replace(
            each,
            evaluator_results=(*each.evaluator_results, facts),
            timestamp=datetime(2026, 1, 2 if number < 8 else 5, tzinfo=UTC),
        )
        for number, each in enumerate(matrix(v1_small=0.2, v2_small=0.9))
    ]
    keep("r1", rows)
    lines = said(project, "--prompts", "v1", "v2", "--by", by).splitlines()
    table = lines[next(index for index, line in enumerate(lines) if line.endswith("rose")) :]
    assert [line.split("  ")[0] for line in table[: len(titles)]] == titles
    assert not table[len(titles)]


def test_a_group_compares_the_cases_that_are_in_it_on_both_sides(project: Project, keep: Keep) -> None:
    def rows(models: str) -> list[CaseResult]:
        return [row(f"case-{number}", 0.5, metadata={"model": model}) for number, model in enumerate(models)]

    keep("r1", rows("sssssl"))
    keep("r2", rows("sssllll"))
    lines = said(project, "r1", "r2", "--by", "model").splitlines()
    assert [line.split()[:2] for line in lines if line.startswith(("s ", "l "))] == [["s", "3"], ["l", "1"]]
    assert lines[lines.index("only after: 1") + 1] == "  case-6"


def test_compare_refuses_two_keys_to_group_by(project: Project, keep: Keep) -> None:
    keep("r1", matrix(v1_small=0.2, v2_small=0.9))
    text = said(project, "--prompts", "v1", "v2", "--by", "tag", "--by", "week", code=4)
    assert "--by is given 2 times (tag, week); compare takes one KEY" in text


def test_an_evaluator_group_has_the_scores_and_the_passes_of_that_evaluator(project: Project, keep: Keep) -> None:
    def rows(fact: float) -> list[CaseResult]:
        facts = EvaluatorResult(name="facts", type="contains", score=fact, verdict="pass" if fact else "fail")
        return [row(f"case-{number}", 0.5, evaluator_results=(facts,)) for number in range(8)]

    keep("r1", rows(0.0))
    keep("r2", rows(1.0))
    (group,) = json.loads(said(project, "r1", "r2", "--by", "evaluator", "--json"))["groups"]
    measured = {each["measure"]: (each["before"], each["after"]) for each in group["measures"]}
    assert (group["group"], measured) == ("facts", {"score": (0.0, 1.0), "pass": (0.0, 1.0)})


def test_every_format_shows_the_groups(project: Project, keep: Keep) -> None:
    keep("r1", [*matrix(v1_small=0.2, v2_small=0.9), row("only", 1.0, prompt="v1", target="small", tags=("<b>gone",))])
    call = ("--prompts", "v1", "v2", "--by", "tag")
    text, markdown, html = (said(project, *call, "--format", each) for each in ("text", "markdown", "html"))
    assert "groups only before: tag <b>gone" in text
    assert "| `refund` | 6 |" in markdown
    assert '<th scope="row">order</th>' in html
    assert "<b>gone" not in html
    output = json.loads(said(project, *call, "--json"))
    assert (output["by"], [each["group"] for each in output["groups"]]) == ("tag", ["refund", "order"])
    assert output["groups_only_before"] == [{"group": "<b>gone"}]
    assert [each["eval_id"] for each in output["groups"][1]["improved"]] == ["case-6", "case-7"]


def test_gates_hold_for_every_group(project: Project, keep: Keep) -> None:
    keep("r1", matrix(**MATRIX))
    call = ("--prompts", "v1", "v2", "--by", "target", "--gate", "regressions <= 0")
    text = said(project, *call, code=1)
    assert "target small: PASS" in text
    assert "target large: FAIL: regressions is 8, not <= 0. Exit code 1." in text


def test_groups_of_which_no_side_has_the_same_are_nothing(project: Project, keep: Keep) -> None:
    keep("r1", [row("a", 1.0, tags=("x",))])
    keep("r2", [row("a", 1.0, tags=("y",))])
    assert said(project, "r1", "r2", "--by", "tag", code=5).splitlines()[-3:] == [
        "groups only after: tag y",
        "",
        "NOTHING SELECTED: no group is on both sides (grouped by tag).",
    ]


def sessions(prefix: str, scores: Sequence[float], each: int = 3) -> list[CaseResult]:
    return [
        row(f"{prefix}-{number}-{turn}", score, conversation_id=f"{prefix}-{number}")
        for number, score in enumerate(scores)
        for turn in range(each)
    ]


def test_runs_with_other_cases_are_independent_samples_of_sessions(project: Project, keep: Keep) -> None:
    keep("r1", sessions("mon", [0.2, 0.9, 0.3, 0.8]))
    keep("r2", sessions("tue", [0.3, 0.8, 0.4, 0.9, 0.5]))
    lines = said(project, "r1", "r2").splitlines()
    assert lines[2] == "cases   12 before in 4 sessions, 15 after in 5 sessions, unpaired"
    assert lines[5].split()[-3:] == ["12", "/", "15"]
    assert lines[-1].startswith("no significant difference (n needed: ")
    assert lines[-1].endswith("), unpaired")


def test_one_matching_id_in_ten_is_paired_and_fewer_are_not(project: Project, keep: Keep) -> None:
    keep("r1", [row(f"a{number}", 0.5) for number in range(10)])
    keep("r2", [row(f"{'a' if number == 9 else 'b'}{number}", 0.9) for number in range(10)])
    keep("r3", [row(f"{'a' if number == 9 else 'b'}{number}", 0.9) for number in range(11)])
    keep("r4", [row(f"a{number}", 0.5) for number in range(11)])
    assert "unpaired" not in said(project, "r1", "r2")
    assert said(project, "r4", "r3").splitlines()[-1] == "better, unpaired"
    assert "unpaired" in said(project, "r1", "r1", "--unpaired").splitlines()[-1]


def test_alike_results_of_a_session_do_not_make_a_difference_significant(project: Project, keep: Keep) -> None:
    keep("r1", [row(f"a{number}", [0.2, 0.9][number % 2]) for number in range(60)])
    keep("r2", [row(f"b{number}", [0.5, 1.0][number % 2]) for number in range(60)])
    assert said(project, "r1", "r2").splitlines()[-1] == "better, unpaired"
    keep("r3", sessions("a", [0.2, 0.9], 30))
    keep("r4", sessions("b", [0.5, 1.0], 30))
    assert said(project, "r3", "r4").splitlines()[-1].startswith("no significant difference")


def test_a_gate_on_pairs_never_passes_unpaired(project: Project, keep: Keep) -> None:
    keep("r1", [row(f"a{number}", 0.5 + number / 100) for number in range(10)])
    keep("r2", [row(f"b{number}", 0.9 + number / 100) for number in range(10)])
    assert "regressions" in said(project, "r1", "r2", "--gate", "regressions <= 0", code=3)
    assert "PASS: mean_difference is" in said(project, "r1", "r2", "--gate", "mean_difference >= 0.1 with 95%")
    assert "Exit code 0" in said(project, "r1", "r2", "--gate", "mean >= 0.8")


def test_unpaired_groups_are_corrected_for_their_number(project: Project, keep: Keep) -> None:
    tags = ("refund", "order")
    keep("r1", [row(f"a{number}", number % 3 / 4, tags=(tags[number % 2],)) for number in range(24)])
    keep("r2", [row(f"b{number}", 0.3 + number % 3 / 4, tags=(tags[number % 2],)) for number in range(24)])
    groups = json.loads(said(project, "r1", "r2", "--by", "tag", "--json"))["groups"]
    assert [each["paired"] for each in groups] == [False, False]
    for place in range(2):  # the mean score and the pass rate
        tested = [each["measures"][place] for each in groups]
        raw, shown = [each["test"]["p"] for each in tested], [each["p"] for each in tested]
        assert max(shown) == pytest.approx(max(*raw, 2 * min(raw)))
        assert min(shown) == pytest.approx(min(1, 2 * min(raw)))
    assert said(project, "r1", "r2", "--by", "tag").splitlines()[-1].endswith("; unpaired")
    measure = groups[0]["measures"][0]
    assert (measure["cases_before"], measure["clusters_after"], measure["deviation"]) == (12, 12, None)


PROMPTED = """
prompts:
  - {id: v1, system: Be brief.}
  - {id: v2, system: "Say answer."}
execution: {evaluators: [{name: has, type: contains, value: answer}]}
evalcases:
  - {id: a, outcome: x, input_messages: [{role: user, content: question a}]}
  - {id: b, outcome: x, input_messages: [{role: user, content: question b}]}
"""
AGENT = """
def answer(request):
    return "an answer" if "Say answer" in str(request) else "no"
"""


def test_gates_and_groups_of_a_run_with_prompts(project: Project) -> None:
    (project.folder / "prompted.yaml").write_text(PROMPTED)
    (project.folder / "prompted.py").write_text(AGENT)
    targets = 'targets: [{name: p, provider: python, callable: "prompted.py:answer"}]'
    (project.folder / "targets.yaml").write_text(targets)

    def ends(gate: str) -> tuple[int, str]:
        code, text = project.call("run", "prompted.yaml", "--targets", "targets.yaml", "--target", "p", "--gate", gate)
        return code, text.splitlines()[-1]

    assert ends("prompt(v2).pass_rate >= 90%")[0] == 0
    code, last = ends("prompt(v1).pass_rate >= 90%")
    assert (code, "prompt(v1).pass_rate is 0 %" in last) == (1, True)
    assert ends("prompt(v3).pass_rate >= 90%")[0] == 4
    assert "Exit code 1." in said(project, "--prompts", "v2", "v1", "--gate", "regressions <= 0", code=1)
    _, text = project.call("show", "latest", "--by", "prompt")
    assert [line.split()[:3] for line in text.splitlines()[1:]] == [["v1", "0", "%"], ["v2", "100", "%"]]
