"""The agreement of annotators as a sheet and as JSON."""

from collections.abc import Iterator, Sequence

from agentv.reports.judge.card import coefficient_interval_text, coefficient_text
from agentv.reports.run.report_json import interval_to_json
from agentv.reports.text.amounts import count_text, percent_text
from agentv.reports.text.sheet import Part, Sheet
from agentv.scoring.judges.report_card import FEWEST, AnnotatorAgreement
from agentv.types.json_value import JsonObject

AGREEMENT_SCHEMA = "agentv-agreement-1"
_SEVERAL = 2


def agreement_sheet(run_id: str, results: Sequence[AnnotatorAgreement]) -> Sheet:
    """Return the agreement on all criteria as a sheet."""
    names = {name for each in results for name in each.annotators}
    answers = max((each.answers for each in results), default=0)
    sentence = f"{count_text(len(names), 'annotator')}; at most {count_text(answers, 'answer')} with several labels."
    head = ("criterion", "tag", "answers", "alike", "alpha", "95 % CI", "metric", "Fleiss' kappa", "of answers")
    parts = [Part("Agreement", (head, *map(_row, results)), notes=tuple(_notes(results)))]
    if pairs := tuple(row for each in results if each.tag is None for row in _pairs(each)):
        parts.append(Part("Pairs of annotators", (("criterion", "annotators", "answers", "Cohen's kappa"), *pairs)))
    return Sheet(f"agreement of annotators · run {run_id}", sentence, tuple(parts))


def _row(each: AnnotatorAgreement) -> tuple[str, ...]:
    return (
        each.criterion,
        each.tag or "all",
        f"{each.answers:,}",
        percent_text(each.alike),
        coefficient_text(each.alpha.value),
        coefficient_interval_text(each.alpha.interval),
        each.metric,
        coefficient_text(each.fleiss),
        f"{each.complete:,}",
    )


def _pairs(each: AnnotatorAgreement) -> Iterator[tuple[str, ...]]:
    for pair in each.pairs:
        yield each.criterion, f"{pair.first}, {pair.second}", f"{pair.answers:,}", coefficient_text(pair.kappa)


def _notes(results: Sequence[AnnotatorAgreement]) -> Iterator[str]:
    if any(each.cases < FEWEST for each in results):
        yield f"fewer than {FEWEST} cases with several labels: no interval"
    if any(len(each.annotators) < _SEVERAL for each in results):
        yield "a criterion with one annotator has no agreement"
    if any(each.answers and each.alpha.value is None for each in results):
        yield "if all labels are the same, agreement beyond chance is not defined"


def agreement_to_json(each: AnnotatorAgreement) -> JsonObject:
    """Return the agreement on one criterion as JSON; unknown values are null."""
    return {
        "criterion": each.criterion,
        "tag": each.tag,
        "metric": each.metric,
        "annotators": list(each.annotators),
        "answers": each.answers,
        "cases": each.cases,
        "alike": each.alike,
        "alpha": {"value": each.alpha.value, "interval": interval_to_json(each.alpha.interval)},
        "fleiss_kappa": {"value": each.fleiss, "answers": each.complete},
        "cohen_kappa": [
            {"annotators": [pair.first, pair.second], "answers": pair.answers, "value": pair.kappa}
            for pair in each.pairs
        ],
    }
