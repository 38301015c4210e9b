"""Reviewing: the next answer of a reviewer with the form that labels it, and the disputed answers of a queue."""

from collections.abc import Iterator, Mapping

from agentv.reports.html.parts import answer_parts, expected_parts, question_parts, reply_parts
from agentv.reports.run.row_text import row_score
from agentv.reports.run.views import RowDetail
from agentv.reports.text.markup import Html, element
from agentv.scoring.results.aggregation import row_state
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.records.label import OVERALL, Label
from agentv.view.access import READER
from agentv.view.address import Query, path_to
from agentv.view.blind import blind_work
from agentv.view.elements import state_badge
from agentv.view.pages.label_form import label_form, sent_label, verdict_text
from agentv.view.pages.page import Page, Request, Saved
from agentv.view.reviews import OTHER_PAGES, GivenItem, ReviewRefusedError, ReviewSession, UnknownItemError

_WHOLE = "Is the answer as a whole good enough?"
_OPEN_WITH_LINK = "open the link that `agentv review` printed for you"


def session_of(request: Request) -> ReviewSession:
    """Return the queue of an address: one that is reviewed here by its name, any other as NAME@RUN."""
    name, _, run = request.names["queue"].partition("@")
    if run:
        stored = request.library.open(run)
        return request.reviews.of_run(stored, name)
    session = request.reviews.named(name)
    if session is None:
        raise UnknownItemError(f"no queue {name!r} is reviewed here; open that of a run as {name}@RUN")
    return session


def check_blind(request: Request) -> None:
    """Raise ReviewRefusedError for a page that shows a reviewer what a blind queue hides that waits for them.

    The link of a reviewer opens the queues that are reviewed here. A page that shows judge, target or other reviewers
    waits for the blind queues: if it shows a queue, for those of the same answers, else for all of the project.
    """
    reviewer = request.reviewer
    if reviewer == READER:
        return
    session = None
    if "queue" in request.names:
        if "@" in request.names["queue"]:
            raise ReviewRefusedError(f"your link opens the queues that are reviewed here; {_OPEN_WITH_LINK}")
        session = session_of(request)
        if session.queue.blind and not request.path.removesuffix(".json").endswith("/conflicts"):
            return
    for each in blind_work(request.reviews, request.library.home, reviewer):
        # A queue itself says what is left in it.
        if session is None or (each.session is not session and each.is_about(session)):
            raise ReviewRefusedError(
                f"this page shows judge, target and other reviewers, and you still have to label {each} blind; label "
                f"these first: {_OPEN_WITH_LINK}"
            )
    if session is None:
        for own in request.reviews.reviewed(reviewer):
            own.note_seen(reviewer, *OTHER_PAGES)


def reviewer_of(request: Request) -> str:
    """Return who reviews. Raises ReviewRefusedError for a person who may only read."""
    if request.reviewer == READER:
        raise ReviewRefusedError(f"only reviewers label answers; {_OPEN_WITH_LINK}")
    return request.reviewer


def next_page(request: Request) -> Page:
    """Return the next answer of a reviewer, or the one with a number, to correct its label."""
    session, reviewer = session_of(request), reviewer_of(request)
    number = _number(request.query.last("item"))
    given = session.give(reviewer, number, with_expected=request.query.last("expected") is not None)
    if given is None:
        return _end_page(request, session, reviewer)
    path = queue_path(request, session, "next")
    is_correction = given.earlier is not None
    parts = [
        _head(session, given, "correct your label" if is_correction else ""),
        None if session.queue.blind or given.other is not None else _unblinded(given),
        *_answers(given),
        *_expected(given, path),
        label_form(given, path, session.categories(), undo=_undo(given, path)),
    ]
    return _review_page(f"{given.position} of {given.total}", parts, _item_json(given, is_blind=session.queue.blind))


def save_label(request: Request) -> Saved:
    """Store the label of a form; go on with the next answer."""
    session, reviewer = session_of(request), reviewer_of(request)
    saved = session.save(reviewer, sent_label(request.form))
    given = session.give(reviewer)
    upcoming = None if given is None else _item_json(given, is_blind=session.queue.blind)
    return Saved(queue_path(request, session, "next"), {"saved": _label_json(saved), "next": upcoming})


def conflicts_page(request: Request) -> Page:
    """Return the next answer on which reviewers disagree, with what they said."""
    session, reviewer = session_of(request), reviewer_of(request)
    given = session.give_disputed(reviewer, _number(request.query.last("item")))
    if given is None:
        shown = element("p", "No answer is left on which reviewers disagree.", class_="notice")
        return _review_page("Conflicts", [element("h1", "Conflicts"), shown], {"item": None})
    said = [element("li", *_said(given, label), dir="auto") for label in given.disputed]
    parts = [
        _head(session, given, "reviewers disagree"),
        element("section", element("h2", "What reviewers said"), element("ul", *said)),
        *_answers(given),
        *expected_parts(given.detail),
        label_form(given, queue_path(request, session, "conflicts"), session.categories()),
    ]
    return _review_page("Conflicts", parts, _item_json(given, is_blind=session.queue.blind))


def save_resolution(request: Request) -> Saved:
    """Store the verdict that settles a disagreement; go on with the next one."""
    session, reviewer = session_of(request), reviewer_of(request)
    saved = session.save(reviewer, sent_label(request.form, is_resolution=True))
    given = session.give_disputed(reviewer)
    upcoming = None if given is None else _item_json(given, is_blind=session.queue.blind)
    return Saved(queue_path(request, session, "conflicts"), {"saved": _label_json(saved), "next": upcoming})


def _review_page(title: str, parts: list[Html | None], data: JsonObject) -> Page:
    return Page(title=title, parts=parts, data=data, keys="review")


def queue_path(request: Request, session: ReviewSession, *page: str) -> str:
    """Return the address of a queue, or of a page of it."""
    name = session.queue.name
    is_reviewed_here = request.reviews.named(name) is session
    return path_to("q", name if is_reviewed_here else f"{name}@{session.stored.run_id}", *page)


def _number(text: str | None) -> int | None:
    if text is None:
        return None
    if not (text.isascii() and text.isdecimal() and len(text) < 10):  # noqa: PLR2004 - digits
        raise UnknownItemError(f"{text!r} is not the number of an item")
    return int(text)


def _head(session: ReviewSession, given: GivenItem, note: str) -> Html:
    words = element("small", f" {note}") if note else None
    criterion = session.queue.criterion
    described = given.criterion.description if given.criterion is not None else ""
    if given.other is not None:
        asked = "Which answer is better?"
    else:
        asked = _WHOLE if criterion == OVERALL else f"{criterion}: {described or 'does the answer pass?'}"
    return element(
        "header",
        element("h1", f"{given.position} of {given.total}", words),
        element("progress", value=str(given.position - 1), max=str(given.total), aria_label="labelled"),
        element("p", asked, class_="sentence", dir="auto"),
        class_="review-head",
    )


def _answers(given: GivenItem) -> Iterator[Html | None]:
    """Yield question and answer, or the two answers of a pair next to each other in their shuffled order."""
    yield element("h2", "Question and answer" if given.other is None else "Question and answers", class_="unseen")
    if given.other is None:
        yield from answer_parts(given.detail)
        return
    yield from question_parts(given.detail)
    sides = (given.other, given.detail) if given.item.is_swapped else (given.detail, given.other)
    shown = [
        element("section", element("h2", f"{name} answer"), *reply_parts(detail, key=key))
        for name, detail, key in zip(("First", "Second"), sides, ("x", None), strict=True)
    ]
    yield element("div", *shown, class_="pair")


def _unblinded(given: GivenItem) -> Html:
    result = given.detail.result
    badge = state_badge(row_state(result), f"the judge says {row_state(result)} {row_score(result)}".strip())
    return element("p", badge, f" · target {result.slot.target}", dir="auto")


def _expected(given: GivenItem, path: str) -> Iterator[Html | None]:
    """Yield what the case expects if the reviewer asked for it, else the link that shows it."""
    if "expected" in given.shown:
        yield element("section", *expected_parts(given.detail), id="expected")
        return
    address = Query((("item", str(given.number)), ("expected", "1"))).address(path)
    yield element("p", element("a", "Show what the case expects ", element("kbd", "e"), href=address, data_key="e"))


def _undo(given: GivenItem, path: str) -> str | None:
    return None if given.before is None else Query((("item", str(given.before)),)).address(path)


def _end_page(request: Request, session: ReviewSession, reviewer: str) -> Page:
    labels = session.labels()
    progress = next(each for each in labels.progress() if each.reviewer == reviewer)
    skipped = f", {progress.skipped:,} skipped" if progress.skipped else ""
    disputed = len(labels.conflicts())
    last = labels.labelled_before(reviewer, None)
    parts: list[Html | None] = [
        element("h1", "All answers are reviewed"),
        element("p", f"{progress.labelled:,} labelled{skipped}. Thank you.", class_="notice"),
    ]
    if disputed:
        link = element(
            "a", f"Resolve {disputed:,} on which reviewers disagree", href=queue_path(request, session, "conflicts")
        )
        parts.append(element("p", link))
    if last is not None:
        undo = Query((("item", str(last)),)).address(queue_path(request, session, "next"))
        parts.append(element("p", element("a", "Undo the last label ", element("kbd", "z"), href=undo, data_key="z")))
    data: JsonObject = {"item": None, "labelled": progress.labelled, "skipped": progress.skipped}
    return _review_page("Reviewed", parts, data)


def _said(given: GivenItem, label: Label) -> Iterator[Html | str]:
    yield element("b", label.annotator)
    yield f": {verdict_text(label, given.item)}"
    if label.category:
        yield f" · {label.category}"
    if label.note:
        yield f" — {label.note}"


def _item_json(given: GivenItem, *, is_blind: bool) -> JsonObject:
    """Return an item as JSON, with no more than its page shows."""
    case, result = given.detail.case, given.detail.result
    seen: Mapping[str, str] = {} if is_blind else {"target": result.slot.target, "judge": row_state(result)}
    expected = {} if case is None else {"outcome": case.expected_outcome, "reference": case.reference_answer}
    return {
        "item": given.number,
        "position": given.position,
        "total": given.total,
        "label_id": given.label_id,
        "question": "" if case is None else case.question,
        "answer": result.candidate_answer if given.other is None else None,
        "answers": None if given.other is None else _texts(given, given.other),
        "expected": expected if "expected" in given.shown or given.disputed else None,
        "earlier": None if given.earlier is None else _label_json(given.earlier),
        "before": given.before,
        "disputed": [_label_json(each) for each in given.disputed],
        **seen,
    }


def _texts(given: GivenItem, other: RowDetail) -> list[JsonValue]:
    texts: list[JsonValue] = [given.detail.result.candidate_answer, other.result.candidate_answer]
    return texts[::-1] if given.item.is_swapped else texts


def _label_json(label: Label) -> JsonObject:
    return {
        "label_id": label.label_id,
        "annotator": label.annotator,
        "verdict": label.verdict,
        "score": label.score,
        "note": label.note,
        "category": label.category,
    }
