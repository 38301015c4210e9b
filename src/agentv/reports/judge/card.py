"""The report card of a judge as a sheet and as JSON: agreement with human labels, confusion, disagreements."""

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from agentv.reports.run.report_json import interval_to_json
from agentv.reports.text.amounts import count_text, percent_interval_text, percent_text
from agentv.reports.text.sheet import Finding, Part, Sheet
from agentv.scoring.judges.labels import LabelledAnswer, Opinion
from agentv.scoring.judges.report_card import AgreementRate, Kappa, PeopleAgreement, ReportCard, advice
from agentv.types.json_value import JsonObject
from agentv.types.records.answer import ResultKey
from agentv.types.summaries import Interval

SHOWN = 10
"""Disagreements that a terminal shows."""


class JudgeCard(Struct, frozen=True):
    """The report card of a judge with its subject. `remarks` are about labels without a verdict.

    `disagreements` are the answers on which the judge and the human labels disagree.
    """

    run_id: str
    evaluator: str
    criterion: str
    card: ReportCard
    by_tag: Mapping[str, ReportCard]
    disagreements: Sequence[LabelledAnswer]
    remarks: tuple[str, ...] = ()


def card_sheet(judge: JudgeCard, *, most: int | None = None) -> Sheet:
    """Return the card as a sheet with at most `most` disagreements."""
    parts = [_agreement(judge.card), _confusion(judge.card), _people(judge.card.people)]
    if judge.by_tag:
        parts.append(_tags(judge.by_tag))
    parts.append(_disagreements(judge, most))
    notes = (*advice(judge.card), *judge.remarks)
    if notes:
        parts.append(Part("Missing", notes=notes))
    title = f"judge {judge.evaluator}, criterion {judge.criterion} · run {judge.run_id}"
    return Sheet(title, _sentence(judge.card), tuple(parts))


def _sentence(card: ReportCard) -> str:
    answers = count_text(card.confusion.answers, "answer")
    if card.accuracy.rate is None:
        return f"No answer has both a verdict of the judge and a human label{_split(card)}."
    return f"The judge agrees with human labels on {percent_text(card.accuracy.rate.value)} of {answers}{_split(card)}."


def _split(card: ReportCard) -> str:
    if not card.split:
        return ""
    are, whose = ("is", "its") if card.split == 1 else ("are", "their")
    return f"; {card.split:,} more {are} not counted, because {whose} annotators are evenly divided"


def _agreement(card: ReportCard) -> Part:
    rows = [
        ("agreement", "value", "95 % CI", "answers", "cases"),
        _rate_row("same verdict", card.accuracy),
        _rate_row("sensitivity (judge passes what people pass)", card.sensitivity),
        _rate_row("specificity (judge fails what people fail)", card.specificity),
        _kappa_row("Cohen's kappa", card.kappa, card),
    ]
    if card.weighted is not None:
        rows.append(_kappa_row("weighted kappa of scores", card.weighted, card))
    return Part("", tuple(rows))


def _rate_row(name: str, rate: AgreementRate) -> tuple[str, ...]:
    if rate.rate is None:
        return (name, "-", "-", "0", "0")
    return (
        name,
        percent_text(rate.rate.value),
        percent_interval_text(rate.interval),
        f"{rate.rate.rows:,}",
        f"{rate.cases:,}",
    )


def _kappa_row(name: str, kappa: Kappa, card: ReportCard) -> tuple[str, ...]:
    return (
        name,
        coefficient_text(kappa.value),
        coefficient_interval_text(kappa.interval),
        f"{card.confusion.answers:,}",
        f"{card.cases:,}",
    )


def coefficient_text(value: float | None) -> str:
    """Return a coefficient of -1..1 with two decimals; `-` for None."""
    return "-" if value is None else f"{value:.2f}"


def coefficient_interval_text(interval: Interval | None) -> str:
    """Return an interval of a coefficient; `-` for None."""
    return "-" if interval is None else f"{interval.low:.2f} to {interval.high:.2f}"


def _confusion(card: ReportCard) -> Part:
    counts = card.confusion
    return Part(
        "",
        (
            ("", "humans pass", "humans fail"),
            ("judge passes", f"{counts.both_pass:,}", f"{counts.judge_alone:,}"),
            ("judge fails", f"{counts.people_alone:,}", f"{counts.both_fail:,}"),
        ),
    )


def _people(people: PeopleAgreement) -> Part:
    if not people.answers or people.alike is None:
        return Part("", notes=(f"{count_text(people.annotators, 'annotator')}; no answer was labelled by two.",))
    scale = "" if people.scale_alpha is None else f", of scores {coefficient_text(people.scale_alpha)}"
    note = (
        f"Agreement between annotators, the ceiling for a judge: {percent_text(people.alike)} of pairs on "
        f"{count_text(people.answers, 'answer')} with several labels; Krippendorff's alpha "
        f"{coefficient_text(people.alpha)}{scale}."
    )
    return Part("", notes=(note,))


def _tags(by_tag: Mapping[str, ReportCard]) -> Part:
    head = ("tag", "same verdict", "95 % CI", "sensitivity", "specificity", "kappa")
    return Part("", (head, *(tuple(_tag_row(tag, card)) for tag, card in by_tag.items())))


def _tag_row(tag: str, card: ReportCard) -> Iterator[str]:
    yield tag
    yield _share_of(card.accuracy)
    yield percent_interval_text(card.accuracy.interval)
    yield _share_of(card.sensitivity)
    yield _share_of(card.specificity)
    yield coefficient_text(card.kappa.value)


def _share_of(rate: AgreementRate) -> str:
    return "-" if rate.rate is None else f"{percent_text(rate.rate.value)} of {rate.rate.rows:,}"


def _disagreements(judge: JudgeCard, most: int | None) -> Part:
    shown = judge.disagreements[:most]
    rest = len(judge.disagreements) - len(shown)
    return Part(
        f"Disagreements: {len(judge.disagreements):,}",
        findings=tuple(map(_finding, shown)),
        left_out=f"and {rest:,} more; list them with --json or -o card.html" if rest else "",
    )


def slot_text(key: ResultKey) -> str:
    """Return `refund-7 · short trial 2, agent`; trials count from 1, as in every report."""
    prompt = "" if key.prompt is None else f" · {key.prompt}"
    trial = f" trial {key.trial + 1}" if key.trial else ""
    return f"{key.eval_id}{prompt}{trial}, {key.target}"


def _finding(answer: LabelledAnswer) -> Finding:
    judge = answer.judge
    return Finding(
        f"{slot_text(answer.slot)}: judge {_verdict(judge)}, humans {answer.people_value:.2f}",
        (("judge", judge.reasoning or "-"), *((each.annotator, _comment(each)) for each in answer.people)),
    )


def _verdict(opinion: Opinion) -> str:
    return f"{opinion.value:.2f} {'pass' if opinion.passed else 'not pass'}"


def _comment(opinion: Opinion) -> str:
    return f"{_verdict(opinion)}{f', {opinion.reasoning}' if opinion.reasoning else ''}"


CARD_SCHEMA = "agentv-judge-card-1"


def card_to_json(judge: JudgeCard) -> JsonObject:
    """Return a card as JSON; unknown values are null."""
    return {
        "run_id": judge.run_id,
        "evaluator": judge.evaluator,
        "criterion": judge.criterion,
        **_card(judge.card),
        "by_tag": {tag: _card(card) for tag, card in judge.by_tag.items()},
        "disagreements": [_answer(each) for each in judge.disagreements],
        "missing": [*advice(judge.card), *judge.remarks],
    }


def _card(card: ReportCard) -> JsonObject:
    counts, people = card.confusion, card.people
    return {
        "answers": counts.answers,
        "cases": card.cases,
        "split": card.split,
        "confusion": {
            "both_pass": counts.both_pass,
            "judge_alone": counts.judge_alone,
            "people_alone": counts.people_alone,
            "both_fail": counts.both_fail,
        },
        "accuracy": _rate(card.accuracy),
        "sensitivity": _rate(card.sensitivity),
        "specificity": _rate(card.specificity),
        "kappa": _kappa(card.kappa),
        "weighted_kappa": None if card.weighted is None else _kappa(card.weighted),
        "people": {
            "annotators": people.annotators,
            "answers": people.answers,
            "alike": people.alike,
            "alpha": people.alpha,
            "scale_alpha": people.scale_alpha,
        },
    }


def _rate(rate: AgreementRate) -> JsonObject:
    measured = rate.rate
    return {
        "value": None if measured is None else measured.value,
        "answers": 0 if measured is None else measured.rows,
        "cases": rate.cases,
        "interval": interval_to_json(rate.interval),
    }


def _kappa(kappa: Kappa) -> JsonObject:
    return {"value": kappa.value, "interval": interval_to_json(kappa.interval)}


def _answer(answer: LabelledAnswer) -> JsonObject:
    return {
        **answer.slot.to_json(),
        "judge": _opinion(answer.judge),
        "people": [{"annotator": each.annotator, **_opinion(each)} for each in answer.people],
    }


def _opinion(opinion: Opinion) -> JsonObject:
    return {"score": opinion.value, "passed": opinion.passed, "reasoning": opinion.reasoning}
