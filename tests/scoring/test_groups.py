from msgspec.structs import replace
from tests.support.rows import make_row

from agentv.scoring.counting.groups import MAX_GROUPS, OTHERS, Groups
from agentv.scoring.counting.row_kinds import kind_of
from agentv.scoring.results.aggregation import row_state
from agentv.types.evaluation import EvaluationResult, EvaluatorResult
from agentv.types.failures import Failure
from agentv.types.records.result import CaseResult
from agentv.types.summaries import GroupSummary

BROKEN = Failure("server_error", "HTTP 503")


def grouped(by: str, *rows: CaseResult) -> dict[str, GroupSummary]:
    groups = Groups([by])
    for row in rows:
        groups.add(kind_of(row, row_state(row)), metadata=row.metadata)
    return {each.name: each for each in groups.summaries()}


def test_a_row_is_counted_under_each_of_its_tags() -> None:
    found = grouped("tag", make_row("a", tags=("x", "y")), make_row("b", score=0.0, tags=("x",)), make_row("c"))
    assert {name: (each.judged, each.pass_rate) for name, each in found.items()} == {"x": (2, 0.5), "y": (1, 1.0)}


def test_an_error_is_counted_beside_the_rate_of_its_group() -> None:
    (found,) = grouped("dataset", make_row("a"), make_row("b", score=None, error=BROKEN)).values()
    assert (found.name, found.rows, found.judged, found.pass_rate) == ("s", 2, 1, 1.0)


def test_any_key_of_the_metadata_makes_groups_lists_several() -> None:
    rows = [
        replace(make_row("a"), metadata={"team": "core", "langs": ["de", "en", "de"], "hard": True, "level": 3}),
        replace(make_row("b", score=0.0), metadata={"team": "core", "langs": ["en"], "deep": {"x": 1}}),
    ]
    shares = {
        key: {name: each.pass_rate for name, each in grouped(f"metadata.{key}", *rows).items()}
        for key in ("team", "langs", "hard", "level", "deep", "none")
    }
    assert shares == {
        "team": {"core": 0.5},
        "langs": {"de": 1.0, "en": 0.5},
        "hard": {"true": 1.0},
        "level": {"3": 1.0},
        "deep": {},
        "none": {},
    }


def test_criteria_are_counted_by_their_own_values_and_errors() -> None:
    results = (
        EvaluationResult("polite", 5, 1.0, "likert5"),
        EvaluationResult("correct", 1, 0.0, "likert5"),
        EvaluationResult("mood", "calm", None),
        EvaluationResult("short", None, error="no reply"),
    )
    judge = EvaluatorResult(name="judge", type="llm_judge", score=0.5, results=results)
    row = replace(make_row("a", score=0.5), evaluator_results=(judge,))
    found = grouped("criterion", row)
    assert {name: (each.counts, each.mean_score) for name, each in found.items()} == {
        "polite": ({"pass": 1}, 1.0),
        "correct": ({"fail": 1}, 0.0),
        "short": ({"error": 1}, None),
    }


def test_a_criterion_judged_by_two_evaluators_is_one_case_per_row() -> None:
    def row(case: str, value: float) -> CaseResult:
        polite = EvaluationResult("polite", value, value)
        judged = [
            EvaluatorResult(name=name, type="contains", score=value, results=(polite,)) for name in ("one", "two")
        ]
        return replace(make_row(case), evaluator_results=tuple(judged))

    rows = [row(f"c{number}", float(number % 2)) for number in range(10)]
    (twice,) = grouped("criterion", *rows).values()
    once = grouped("criterion", *(replace(each, evaluator_results=each.evaluator_results[:1]) for each in rows))
    assert (twice.judged, once["polite"].judged) == (20, 10)
    assert twice.pass_rate_interval is not None
    assert once["polite"].pass_rate_interval is not None
    wide, narrow = (each.high - each.low for each in (twice.pass_rate_interval, once["polite"].pass_rate_interval))
    assert wide >= narrow


def test_evaluators_and_targets_are_groups_too() -> None:
    rows = [make_row("a"), make_row("a", target="u", score=0.0)]
    assert grouped("evaluator", *rows)["tone"].pass_rate == 0.5
    assert {name: each.mean_score for name, each in grouped("target", *rows).items()} == {"t": 1.0, "u": 0.0}


def test_groups_beyond_a_thousand_are_merged_except_tags() -> None:
    rows = [replace(make_row(str(n), tags=(str(n),)), metadata={"n": n}) for n in range(MAX_GROUPS + 5)]
    by_number = grouped("metadata.n", *rows)
    assert (len(by_number), by_number[OTHERS].rows) == (MAX_GROUPS + 1, 5)
    assert len(grouped("tag", *rows)) == MAX_GROUPS + 5
