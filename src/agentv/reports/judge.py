"""The reports on judges and annotators, as documents and as JSON: report card, consistency, agreement."""

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from agentv.reports.document.blocks import (
    Block,
    Cell,
    CountGrid,
    Document,
    Facts,
    Item,
    Items,
    Lines,
    Phrase,
    Quote,
    Section,
    Sentence,
    Table,
    Verdict,
)
from agentv.reports.run.report_json import interval_to_json
from agentv.reports.run.row_text import cell_text
from agentv.reports.text.amounts import count_text, percent_interval_text, percent_text
from agentv.scoring.judges.consistency import Consistency, RepeatedJudgement
from agentv.scoring.judges.labels import LabelledAnswer, Opinion
from agentv.scoring.judges.preference import preference
from agentv.scoring.judges.report_card import (
    MIN_CASES_FOR_INTERVAL,
    AgreementRate,
    AnnotatorAgreement,
    Kappa,
    PeopleAgreement,
    ReportCard,
    advice,
)
from agentv.scoring.judges.reviewing import QueueLabels
from agentv.types.json_value import JsonObject
from agentv.types.records.answer import ResultKey
from agentv.types.summaries import Calibration, Confusion, Interval

MAX_DISAGREEMENTS = 10
"""The number of disagreements that a terminal shows."""


class JudgeCard(Struct, frozen=True):
    """The report card of a judge, with the run, evaluator and criterion."""

    run_id: str
    evaluator: str
    criterion: str
    card: ReportCard
    by_tag: Mapping[str, ReportCard]
    disagreements: Sequence[LabelledAnswer]
    """The answers on which the judge and the human labels disagree."""
    remarks: tuple[str, ...] = ()
    """Sentences about answers without a verdict."""


def card_document(judge_card: JudgeCard, *, max_findings: int | None = None) -> Document:
    """Return the card as a document with at most `max_findings` disagreements."""
    blocks: list[Block] = [
        Verdict((Sentence(_sentence(judge_card.card)),)),
        _agreement_table(judge_card.card),
        confusion_grid(judge_card.card.confusion),
        Lines((_annotators_text(judge_card.card.people),)),
        _tags_table(judge_card.by_tag),
        _disagreements(judge_card, max_findings),
    ]
    notes: tuple[Phrase, ...] = (*advice(judge_card.card), *map(Quote, judge_card.remarks))
    if notes:
        blocks.append(Section("Limits", (Lines(notes),)))
    title = f"judge {judge_card.evaluator}, criterion {judge_card.criterion} · run {judge_card.run_id}"
    return Document(Quote(title), tuple(blocks))


def _sentence(card: ReportCard) -> str:
    answers = count_text(card.confusion.answers, "answer")
    if card.accuracy.rate is None:
        return f"No answer has both a verdict of the judge and a human label{_split_text(card)}."
    share = f"{percent_text(card.accuracy.rate.value)} of {answers}"
    return f"The judge agrees with human labels on {share}{_split_text(card)}."


def _split_text(card: ReportCard) -> str:
    if not card.split:
        return ""
    verb, pronoun = ("is", "its") if card.split == 1 else ("are", "their")
    return f"; {card.split:,} more {verb} not counted, because {pronoun} annotators are evenly divided"


def _agreement_table(card: ReportCard) -> Table:
    rows = [
        _rate_row("same verdict", card.accuracy),
        _rate_row("sensitivity (judge passes what people pass)", card.sensitivity),
        _rate_row("specificity (judge fails what people fail)", card.specificity),
        _kappa_row("Cohen's kappa", card.kappa, card),
    ]
    if card.weighted is not None:
        rows.append(_kappa_row("weighted kappa of scores", card.weighted, card))
    return Table(("agreement", "value", "95 % CI", "answers", "cases"), tuple(rows))


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


def confusion_grid(counts: Confusion) -> CountGrid:
    """Return the answers by the verdicts of the judge and of people."""
    return CountGrid(
        f"verdicts on {count_text(counts.answers, 'answer')}",
        ("humans pass", "humans fail"),
        ("judge passes", "judge fails"),
        ((counts.both_pass, counts.judge_alone), (counts.people_alone, counts.both_fail)),
    )


def calibration_document(calibration: Calibration) -> Document:
    """Return a saved calibration: how often the judge is right, and the labels that it was measured on."""
    rates = (
        ("sensitivity (judge passes what people pass)", calibration.sensitivity),
        ("specificity (judge fails what people fail)", calibration.specificity),
    )
    rows = tuple((name, percent_text(rate.value), f"{rate.rows:,}") for name, rate in rates if rate is not None)
    counts = calibration.confusion
    alike = counts.both_pass + counts.both_fail
    sentence = (
        f"Calibration of {calibration.labelled_at:%Y-%m-%d}: the same verdict on {alike:,} of "
        f"{count_text(counts.answers, 'answer')}, kappa {coefficient_text(calibration.kappa)}."
    )
    facts = Facts(
        (
            ("run", Quote(calibration.run_id)),
            ("cases", f"{calibration.cases:,}"),
            ("annotators", f"{calibration.annotators:,}"),
        )
    )
    title = f"judge {calibration.evaluator}, criterion {calibration.criterion}"
    none = "There are too few labels to correct pass rates with it."
    table = Table(("agreement", "value", "answers"), rows) if rows else Lines((none,))
    return Document(Quote(title), (facts, Verdict((Sentence(sentence),)), table, confusion_grid(counts)))


def _annotators_text(people: PeopleAgreement) -> str:
    if not people.answers or people.alike is None:
        return f"{count_text(people.annotators, 'annotator')}; no answer has labels of two annotators."
    scores = "" if people.scale_alpha is None else f", of scores: {coefficient_text(people.scale_alpha)}"
    return (
        f"{percent_text(people.alike)} of pairs of annotators agree ({count_text(people.answers, 'answer')} with "
        "several labels), which limits the agreement of a judge. "
        f"Krippendorff's alpha of verdicts: {coefficient_text(people.alpha)}{scores}."
    )


def _tags_table(by_tag: Mapping[str, ReportCard]) -> Table:
    heads = ("tag", "same verdict", "95 % CI", "sensitivity", "specificity", "kappa")
    return Table(heads, tuple(tuple(_tag_row(tag, card)) for tag, card in by_tag.items()))


def _tag_row(tag: str, card: ReportCard) -> Iterator[Cell]:
    yield Quote(tag)
    yield _share_of(card.accuracy)
    yield percent_interval_text(card.accuracy.interval)
    yield _share_of(card.sensitivity)
    yield _share_of(card.specificity)
    yield coefficient_text(card.kappa.value)


def _share_of(rate: AgreementRate) -> str:
    return "-" if rate.rate is None else f"{percent_text(rate.rate.value)} of {rate.rate.rows:,}"


def _disagreements(judge_card: JudgeCard, max_findings: int | None) -> Section:
    shown = judge_card.disagreements[:max_findings]
    rest = len(judge_card.disagreements) - len(shown)
    more = f"and {rest:,} more; list them with --json or -o card.html" if rest else ""
    items = Items(tuple(map(_disagreement, shown)), more)
    return Section(f"Disagreements: {len(judge_card.disagreements):,}", (items,))


def key_text(key: ResultKey) -> str:
    """Return `refund-7 · agent · short trial 2`; trials count from 1, as in every report."""
    trial = f" trial {key.trial + 1}" if key.trial else ""
    return f"{key.eval_id} · {cell_text(key.target, key.prompt)}{trial}"


def _disagreement(answer: LabelledAnswer) -> Item:
    judge = answer.judge
    return Item(
        (Quote(key_text(answer.slot)), f": judge {_verdict(judge)}, humans {answer.people_value:.2f}"),
        comments=(("judge", judge.reasoning or "-"), *((each.annotator, _comment(each)) for each in answer.people)),
    )


def _verdict(opinion: Opinion) -> str:
    return f"{opinion.value:.2f} {'passed' if opinion.passed else 'not passed'}"


def _comment(opinion: Opinion) -> str:
    return f"{_verdict(opinion)}{f', {opinion.reasoning}' if opinion.reasoning else ''}"


CARD_SCHEMA = "agentv-judge-card-1"


def card_to_json(judge_card: JudgeCard) -> JsonObject:
    """Return a card as JSON; unknown values are null."""
    return {
        "run_id": judge_card.run_id,
        "evaluator": judge_card.evaluator,
        "criterion": judge_card.criterion,
        **_card(judge_card.card),
        "by_tag": {tag: _card(card) for tag, card in judge_card.by_tag.items()},
        "disagreements": [_answer(each) for each in judge_card.disagreements],
        "missing": [*advice(judge_card.card), *judge_card.remarks],
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


CHECK_SCHEMA = "agentv-judge-check-1"
_TWO_CALLS = 2
MAX_INCONSISTENT = 10
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
    answers: Sequence[RepeatedJudgement]
    calls: int = 0

    @property
    def inconsistent(self) -> list[RepeatedJudgement]:
        """The answers with different verdicts, the largest deviation first."""
        inconsistent = [each for each in self.answers if len(each.opinions) > 1 and not each.is_consistent]
        return sorted(inconsistent, key=lambda each: -each.deviation)


def check_document(check: JudgeCheck, *, max_findings: int | None = None) -> Document:
    """Return the check as a document with at most `max_findings` answers that have inconsistent verdicts."""
    consistency = check.consistency
    title = f"judge {check.evaluator} · run {check.run_id}"
    inconsistent = check.inconsistent[:max_findings]
    rest = len(check.inconsistent) - len(inconsistent)
    notes = [_ON_LENGTH]
    if consistency.failed:
        notes.insert(0, f"{count_text(consistency.failed, 'call')} gave no verdict and are not counted.")
    more = f"and {rest:,} more; list them with --json or -o check.html" if rest else ""
    blocks = (
        Verdict((Sentence(_consistency_sentence(consistency)),)),
        Section("", (_consistency_table(consistency), Lines(tuple(notes)))),
        Section(
            f"Inconsistent verdicts: {len(check.inconsistent):,}",
            (Items(tuple(map(_inconsistency, inconsistent)), more),),
        ),
    )
    return Document(Quote(title), blocks)


def _consistency_sentence(consistency: Consistency) -> str:
    if consistency.same_verdict.rate is None:
        measured = f"{count_text(consistency.answers, 'answer')}, with {count_text(consistency.repeats, 'call')} each"
        return f"Too few verdicts to measure consistency: {measured}."
    calls = "both calls" if consistency.repeats == _TWO_CALLS else f"all {count_text(consistency.repeats, 'call')}"
    share = f"{percent_text(consistency.same_verdict.rate.value)} of {count_text(consistency.answers, 'answer')}"
    return f"For {share}, {calls} gave the same verdict."


def _consistency_table(consistency: Consistency) -> Table:
    rows = [
        _consistency_row("always the same verdict", consistency.same_verdict),
        (
            "spread of an answer's scores (SD)",
            coefficient_text(consistency.deviation),
            "-",
            _answer_count(consistency.same_verdict),
        ),
        (
            "Krippendorff's alpha of verdicts",
            coefficient_text(consistency.alpha),
            "-",
            _answer_count(consistency.same_verdict),
        ),
    ]
    if consistency.position is not None:
        rows.append(_consistency_row("verdicts that change when answers are swapped", consistency.position))
    names = {
        "all": "length and score (Spearman)",
        "passed": "length and score, passes only",
        "failed": "length and score, fails only",
    }
    for kind, name in names.items():
        each = consistency.lengths[kind]
        rows.append((name, coefficient_text(each.value), coefficient_interval_text(each.interval), f"{each.answers:,}"))
    return Table(("", "value", "95 % CI", "answers"), tuple(rows))


def _consistency_row(name: str, rate: AgreementRate) -> tuple[str, ...]:
    value = None if rate.rate is None else rate.rate.value
    return (name, percent_text(value), percent_interval_text(rate.interval), _answer_count(rate))


def _answer_count(rate: AgreementRate) -> str:
    return "0" if rate.rate is None else f"{rate.rate.rows:,}"


def _inconsistency(answer: RepeatedJudgement) -> Item:
    scores = ", ".join(f"{each.value:.2f}" for each in answer.opinions)
    comments = tuple((f"{each.value:.2f}", each.reasoning or "-") for each in answer.opinions)
    return Item((Quote(key_text(answer.slot)), f": {scores}"), comments=comments)


def check_to_json(check: JudgeCheck) -> JsonObject:
    """Return a check as JSON; unknown values are null."""
    consistency = check.consistency
    return {
        "run_id": check.run_id,
        "evaluator": check.evaluator,
        "answers": consistency.answers,
        "repeats": consistency.repeats,
        "calls": check.calls,
        "failed": consistency.failed,
        "same_verdict": _consistency_rate(consistency.same_verdict),
        "score_deviation": consistency.deviation,
        "alpha": consistency.alpha,
        "position_flips": None if consistency.position is None else _consistency_rate(consistency.position),
        "length_correlation": {
            kind: {"value": each.value, "answers": each.answers, "interval": interval_to_json(each.interval)}
            for kind, each in consistency.lengths.items()
        },
        "judged": [_judged(each) for each in check.answers],
    }


def _consistency_rate(rate: AgreementRate) -> JsonObject:
    return {
        "value": None if rate.rate is None else rate.rate.value,
        "of": 0 if rate.rate is None else rate.rate.rows,
        "cases": rate.cases,
        "interval": interval_to_json(rate.interval),
    }


def _judged(answer: RepeatedJudgement) -> JsonObject:
    return {
        **answer.slot.to_json(),
        "characters": answer.length,
        "scores": [each.value for each in answer.opinions],
        "passed": [each.passed for each in answer.opinions],
        "failed": answer.failed,
        "orders": answer.comparisons,
        "flips": answer.flips,
    }


AGREEMENT_SCHEMA = "agentv-agreement-1"
_MIN_ANNOTATORS = 2


def agreement_document(run_id: str, results: Sequence[AnnotatorAgreement]) -> Document:
    """Return the agreement on all criteria as a document."""
    names = {name for each in results for name in each.annotators}
    answers = max((each.answers for each in results), default=0)
    labelled = f"{count_text(answers, 'answer')} with labels of several annotators"
    sentence = f"{count_text(len(names), 'annotator')}; per criterion, at most {labelled}."
    heads = ("criterion", "tag", "answers", "alike", "alpha", "95 % CI", "metric", "Fleiss' kappa", "of answers")
    table = Table(heads, tuple(map(_annotators_row, results)))
    blocks: list[Block] = [
        Verdict((Sentence(sentence),)),
        Section("Agreement", (table, Lines(tuple(_notes(results))))),
    ]
    if pairs := tuple(row for each in results if each.tag is None for row in _pair_rows(each)):
        table = Table(("criterion", "annotators", "answers", "Cohen's kappa"), pairs)
        blocks.append(Section("Pairs of annotators", (table,)))
    return Document(("agreement of annotators · run ", Quote(run_id)), tuple(blocks))


def _annotators_row(agreement: AnnotatorAgreement) -> tuple[Cell, ...]:
    return (
        Quote(agreement.criterion),
        Quote(agreement.tag) if agreement.tag else "all",
        f"{agreement.answers:,}",
        percent_text(agreement.alike),
        coefficient_text(agreement.alpha.value),
        coefficient_interval_text(agreement.alpha.interval),
        agreement.metric,
        coefficient_text(agreement.fleiss),
        f"{agreement.complete:,}",
    )


def _pair_rows(agreement: AnnotatorAgreement) -> Iterator[tuple[Cell, ...]]:
    for pair in agreement.pairs:
        annotators = (Quote(pair.first), ", ", Quote(pair.second))
        yield Quote(agreement.criterion), annotators, f"{pair.answers:,}", coefficient_text(pair.kappa)


def _notes(results: Sequence[AnnotatorAgreement]) -> Iterator[str]:
    if any(each.cases < MIN_CASES_FOR_INTERVAL for each in results):
        yield f"no interval for fewer than {MIN_CASES_FOR_INTERVAL} cases with several labels"
    if any(len(each.annotators) < _MIN_ANNOTATORS for each in results):
        yield "agreement cannot be measured for a criterion with one annotator"
    if any(each.answers and each.alpha.value is None for each in results):
        yield "if all labels are the same, agreement beyond chance is not defined"


def agreement_to_json(agreement: AnnotatorAgreement) -> JsonObject:
    """Return the agreement on one criterion as JSON; unknown values are null."""
    return {
        "criterion": agreement.criterion,
        "tag": agreement.tag,
        "metric": agreement.metric,
        "annotators": list(agreement.annotators),
        "answers": agreement.answers,
        "cases": agreement.cases,
        "alike": agreement.alike,
        "alpha": {"value": agreement.alpha.value, "interval": interval_to_json(agreement.alpha.interval)},
        "fleiss_kappa": {"value": agreement.fleiss, "answers": agreement.complete},
        "cohen_kappa": [
            {"annotators": [pair.first, pair.second], "answers": pair.answers, "value": pair.kappa}
            for pair in agreement.pairs
        ],
    }


def preference_text(labels: QueueLabels) -> str:
    """Return which of two runs people prefer, from the labels of a queue of pairs."""
    queue, found = labels.queue, preference(labels.labels())
    if found.rate is None:
        return "No pair of answers is compared yet."
    interval = "" if found.interval is None else f" (95 % CI {percent_interval_text(found.interval)})"
    return (
        f"People prefer {queue.run_id} to {queue.compared_with} in {percent_text(found.rate)} of the pairs{interval}: "
        f"{found.better:,} better, {found.equal:,} equal, {found.worse:,} worse, {found.skipped:,} skipped."
    )
