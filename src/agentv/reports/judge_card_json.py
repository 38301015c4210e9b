"""The report card of a judge as JSON."""

from agentv.reports.judge_card import JudgeCard
from agentv.reports.report_json import interval_to_json
from agentv.scoring.judges.labelled import LabelledAnswer, Opinion
from agentv.scoring.judges.report_card import AgreementRate, Kappa, ReportCard, advice
from agentv.types.json_value import JsonObject

CARD_SCHEMA = "agentv-judge-card-1"


def card_to_json(told: JudgeCard) -> JsonObject:
    """Return all of a card; what is not known is null."""
    return {
        "run_id": told.run_id,
        "evaluator": told.evaluator,
        "criterion": told.criterion,
        **_card(told.card),
        "by_tag": {tag: _card(card) for tag, card in told.by_tag.items()},
        "disagreements": [_answer(each) for each in told.apart],
        "missing": [*advice(told.card), *told.remarks],
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
