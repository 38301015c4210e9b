"""The consistency of a judge as a sheet and as JSON."""

from collections.abc import Sequence

from msgspec import Struct

from agentv.reports.judge.card import coefficient_interval_text, coefficient_text, slot_text
from agentv.reports.run.report_json import interval_to_json
from agentv.reports.text.amounts import count_text, percent_interval_text, percent_text
from agentv.reports.text.sheet import Finding, Part, Sheet
from agentv.scoring.judges.consistency import Consistency, JudgedAgain
from agentv.scoring.judges.report_card import AgreementRate
from agentv.types.json_value import JsonObject

CHECK_SCHEMA = "agentv-judge-check-1"
_TWO = 2
SHOWN = 10
"""The number of answers with inconsistent verdicts that a terminal shows."""

_ON_LENGTH = (
    "The correlation with length is not adjusted for quality: longer answers may be better. Within the passes, "
    "or within the fails, this matters less."
)


class JudgeCheck(Struct, frozen=True):
    """The measured consistency of a judge, the answers used for it, and the number of judge calls made."""

    run_id: str
    evaluator: str
    consistency: Consistency
    answers: Sequence[JudgedAgain]
    calls: int = 0

    @property
    def inconsistent(self) -> list[JudgedAgain]:
        """The answers with different verdicts, the largest deviation first."""
        several = [each for each in self.answers if len(each.opinions) > 1 and not each.is_consistent]
        return sorted(several, key=lambda each: -each.deviation)


def check_sheet(check: JudgeCheck, *, most: int | None = None) -> Sheet:
    """Return the check as a sheet with at most `most` answers that have inconsistent verdicts."""
    found = check.consistency
    title = f"judge {check.evaluator} · run {check.run_id}"
    inconsistent = check.inconsistent[:most]
    rest = len(check.inconsistent) - len(inconsistent)
    notes = [_ON_LENGTH]
    if found.failed:
        notes.insert(0, f"{count_text(found.failed, 'call')} gave no verdict and are not counted.")
    parts = (
        Part("", _rows(found), notes=tuple(notes)),
        Part(
            f"Inconsistent verdicts: {len(check.inconsistent):,}",
            findings=tuple(map(_finding, inconsistent)),
            left_out=f"and {rest:,} more; list them with --json or -o check.html" if rest else "",
        ),
    )
    return Sheet(title, _sentence(found), parts)


def _sentence(found: Consistency) -> str:
    if found.same_verdict.rate is None:
        measured = f"{count_text(found.answers, 'answer')}, with {count_text(found.repeats, 'call')} each"
        return f"Too few verdicts to measure consistency: {measured}."
    calls = "both calls" if found.repeats == _TWO else f"all {count_text(found.repeats, 'call')}"
    share = f"{percent_text(found.same_verdict.rate.value)} of {count_text(found.answers, 'answer')}"
    return f"For {share}, {calls} gave the same verdict."


def _rows(found: Consistency) -> tuple[tuple[str, ...], ...]:
    rows = [
        ("", "value", "95 % CI", "answers"),
        _rate_row("always the same verdict", found.same_verdict),
        ("spread of an answer's scores (SD)", coefficient_text(found.deviation), "-", _count(found.same_verdict)),
        ("Krippendorff's alpha of verdicts", coefficient_text(found.alpha), "-", _count(found.same_verdict)),
    ]
    if found.position is not None:
        rows.append(_rate_row("verdicts that change with the order", found.position))
    names = {
        "all": "length and score (Spearman)",
        "passed": "length and score, passes only",
        "failed": "length and score, fails only",
    }
    for kind, name in names.items():
        each = found.lengths[kind]
        rows.append((name, coefficient_text(each.value), coefficient_interval_text(each.interval), f"{each.answers:,}"))
    return tuple(rows)


def _rate_row(name: str, rate: AgreementRate) -> tuple[str, ...]:
    value = None if rate.rate is None else rate.rate.value
    return (name, percent_text(value), percent_interval_text(rate.interval), _count(rate))


def _count(rate: AgreementRate) -> str:
    return "0" if rate.rate is None else f"{rate.rate.rows:,}"


def _finding(answer: JudgedAgain) -> Finding:
    scores = ", ".join(f"{each.value:.2f}" for each in answer.opinions)
    comments = tuple((f"{each.value:.2f}", each.reasoning or "-") for each in answer.opinions)
    return Finding(f"{slot_text(answer.slot)}: {scores}", comments)


def check_to_json(check: JudgeCheck) -> JsonObject:
    """Return a check as JSON; unknown values are null."""
    found = check.consistency
    return {
        "run_id": check.run_id,
        "evaluator": check.evaluator,
        "answers": found.answers,
        "repeats": found.repeats,
        "calls": check.calls,
        "failed": found.failed,
        "same_verdict": _rate(found.same_verdict),
        "score_deviation": found.deviation,
        "alpha": found.alpha,
        "position_flips": None if found.position is None else _rate(found.position),
        "length_correlation": {
            kind: {"value": each.value, "answers": each.answers, "interval": interval_to_json(each.interval)}
            for kind, each in found.lengths.items()
        },
        "judged": [_judged(each) for each in check.answers],
    }


def _rate(rate: AgreementRate) -> JsonObject:
    return {
        "value": None if rate.rate is None else rate.rate.value,
        "of": 0 if rate.rate is None else rate.rate.rows,
        "cases": rate.cases,
        "interval": interval_to_json(rate.interval),
    }


def _judged(answer: JudgedAgain) -> JsonObject:
    return {
        **answer.slot.to_json(),
        "characters": answer.length,
        "scores": [each.value for each in answer.opinions],
        "passed": [each.passed for each in answer.opinions],
        "failed": answer.failed,
        "orders": answer.orders,
        "flips": answer.flips,
    }
