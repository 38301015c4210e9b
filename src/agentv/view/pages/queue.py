"""A review queue for who runs it: progress, strata, disagreements, drift, agreement and the corrected rate."""

from collections.abc import Iterator

from agentv.engine.labels.label_rates import load_label_rates
from agentv.reports.judge import coefficient_interval_text, coefficient_text, preference_text
from agentv.reports.run.figures import corrected_notes, corrected_rows, corrected_sentences
from agentv.reports.run.report_json import corrected_to_json, interval_to_json
from agentv.reports.text.amounts import count_text
from agentv.reports.text.markup import Html, element
from agentv.scoring.judges.preference import preference
from agentv.scoring.judges.report_card import AnnotatorAgreement, annotator_agreement, criterion_labels
from agentv.scoring.judges.reviewing import QueueLabels
from agentv.types.json_value import JsonObject
from agentv.types.summaries import CorrectedRate
from agentv.view.access import READER
from agentv.view.elements import table
from agentv.view.pages.page import Page, Request
from agentv.view.pages.review import session_of
from agentv.view.pages.run import run_links, run_trail
from agentv.view.reviews import ReviewRefusedError


def queue_page(request: Request) -> Page:
    """Return the state of a queue. Reviewers do not see it: the agreement of others would influence them."""
    session = session_of(request)
    if request.reviewer != READER:
        raise ReviewRefusedError(
            "only who runs the review sees how it goes, as it would influence reviewers; go on with your own answers"
        )
    stored, queue, labels = session.stored, session.queue, session.labels()
    rates = [each for each in load_label_rates(stored) if each.criterion == queue.criterion]
    agreement = queue_agreement(labels)
    progress = labels.progress()
    left = sum(each.left for each in progress)
    total = sum(each.total for each in progress)
    disputed = len(labels.conflicts())
    parts: list[Html | None] = [
        element("h1", f"Review {queue.name}"),
        element("p", f"{total - left:,} of {total:,} reviewed", id="count", role="status"),
        element("progress", value=str(total - left), max=str(total), aria_label="reviewed"),
        element("p", f"Reviewers disagree on {count_text(disputed, 'answer')}.") if disputed else None,
        element("h2", "Reviewers"),
        table(["reviewer", "labelled", "skipped", "left"], list(_reviewers(labels)), label="Reviewers"),
        *_golden(labels),
        element("h2", "Strata"),
        table(["stratum", "drawn", "of answers", "reviewed"], list(_strata(labels)), label="Strata"),
        element("h2", "Agreement"),
        element("p", agreement_text(agreement)),
        *(_preference(labels) if queue.compared_with else _rates(rates)),
    ]
    data: JsonObject = {
        "queue": queue.name,
        "run_id": stored.run_id,
        "reviewers": [
            {"reviewer": each.reviewer, "labelled": each.labelled, "skipped": each.skipped, "left": each.left}
            for each in progress
        ],
        "conflicts": disputed,
        "golden": [
            {"reviewer": each.reviewer, "first": list(each.first), "second": list(each.second)}
            for each in labels.golden()
        ],
        "alpha": None if agreement is None else agreement.alpha.value,
        "preference": _preference_json(labels) if queue.compared_with else None,
        "corrected": [corrected_to_json(each) for each in rates],
    }
    return Page(
        title=f"Review {queue.name}",
        parts=parts,
        data=data,
        trail=run_trail(stored),
        links=run_links(stored, request.library.run_before(stored)),
        is_live=left > 0 and request.reviews.named(queue.name) is session,
    )


def _preference_json(labels: QueueLabels) -> JsonObject:
    found = preference(labels.labels())
    return {
        "better": found.better,
        "equal": found.equal,
        "worse": found.worse,
        "skipped": found.skipped,
        "rate": found.rate,
        "interval": interval_to_json(found.interval),
    }


def queue_agreement(labels: QueueLabels) -> AnnotatorAgreement | None:
    """Return the agreement of a queue's reviewers; None before two of them labelled an answer."""
    found, _ = criterion_labels(labels.labels(), {}, labels.criteria)
    agreement = annotator_agreement(found[0]) if found else None
    return agreement if agreement is not None and agreement.answers else None


def agreement_text(agreement: AnnotatorAgreement | None) -> str:
    """Return the agreement in a sentence."""
    if agreement is None:
        return "No answer has labels of two reviewers yet; --overlap 20% gives some answers to all of them."
    interval = agreement.alpha.interval
    within = f" ({coefficient_interval_text(interval)})" if interval is not None else ""
    alike = "" if agreement.alike is None else f", alike {100 * agreement.alike:.0f} %"
    alpha = coefficient_text(agreement.alpha.value)
    return f"Krippendorff's alpha {alpha}{within} on {count_text(agreement.answers, 'answer')}{alike}."


def _reviewers(labels: QueueLabels) -> Iterator[Html]:
    for each in labels.progress():
        head = element("th", each.reviewer, scope="row", dir="auto")
        numbers = (each.labelled, each.skipped, each.left)
        yield element("tr", head, *(element("td", f"{number:,}") for number in numbers))


def _golden(labels: QueueLabels) -> Iterator[Html]:
    golden = labels.golden()
    if not golden:
        return
    yield element("h2", "Golden answers")
    rows = [
        element(
            "tr",
            element("th", each.reviewer, scope="row", dir="auto"),
            *(element("td", f"{agreed:,} of {count:,}") for agreed, count in (each.first, each.second)),
        )
        for each in golden
    ]
    yield table(["reviewer", "as known, first half", "second half"], rows, label="Golden answers")


def _strata(labels: QueueLabels) -> Iterator[Html]:
    queue = labels.queue
    for each in queue.strata:
        done = sum(
            bool(found)
            for item, found in zip(queue.items, labels.current, strict=True)
            if item.stratum == each.name and item.golden is None
        )
        cells = (each.n, each.size, done)
        head = element("th", each.name, scope="row", dir="auto")
        yield element("tr", head, *(element("td", f"{number:,}") for number in cells))


def _preference(labels: QueueLabels) -> Iterator[Html]:
    yield element("h2", "Preference")
    yield element("p", preference_text(labels))


def _rates(rates: list[CorrectedRate]) -> Iterator[Html]:
    yield element("h2", "Corrected pass rate")
    if not rates:
        yield element("p", "No label says pass or fail yet.")
        return
    yield from (element("p", text, dir="auto") for text in corrected_sentences(rates))
    heads, *rows = corrected_rows(rates)
    body = [element("tr", *(element("td", cell) for cell in row)) for row in rows]
    yield table(heads, body, label="Corrected pass rates")
    yield from (element("p", note, class_="sentence", dir="auto") for note in corrected_notes(rates))
