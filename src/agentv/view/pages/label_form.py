"""The form that labels an answer: verdict or score, category and note, and what a browser sends of it."""

from collections.abc import Iterator, Sequence
from typing import cast, get_args

from agentv.reports.text.markup import Html, element
from agentv.types.records.label import NO_SCORE, HumanScore, HumanVerdict, Label, ShownPart
from agentv.types.records.review import QueueItem
from agentv.types.scales import EvaluationCriteria
from agentv.view.address import Query
from agentv.view.reviews import BadLabelError, GivenItem, SentLabel, Side, label_side

MAX_NOTE_CHARS = 10_000
MAX_CATEGORY_CHARS = 100
_MAX_SCORE_CHARS = 200
_VERDICTS: Sequence[tuple[HumanVerdict, str, str]] = (
    ("pass", "Pass", "p"),
    ("fail", "Fail", "f"),
    ("unsure", "Cannot tell", "u"),
)
_SIDES: Sequence[tuple[Side, str, str]] = (
    ("first", "First is better", "1"),
    ("second", "Second is better", "2"),
    ("equal", "Equally good", "3"),
    ("unsure", "Cannot tell", "u"),
)
_TWO_VALUED = ("binary", "pass/fail")
_MAX_DIGIT = 9


def label_form(given: GivenItem, path: str, categories: Sequence[str], *, undo: str | None = None) -> Html:
    """Return the form for an item; a correction starts with the label that it corrects."""
    earlier = given.earlier
    hidden = [("item", str(given.number)), ("label_id", given.label_id), *(("shown", each) for each in given.shown)]
    names = [element("option", value=name) for name in categories]
    category = element(
        "input",
        name="category",
        value=(earlier.category if earlier else None) or "",
        list="categories",
        maxlength=str(MAX_CATEGORY_CHARS),
        autocomplete="off",
        data_key="t",
        dir="auto",
    )
    note = element(
        "textarea",
        (earlier.note if earlier else None) or "",
        name="note",
        rows="2",
        maxlength=str(MAX_NOTE_CHARS),
        data_key="m",
        dir="auto",
    )
    return element(
        "form",
        *(element("input", type="hidden", name=name, value=value) for name, value in hidden),
        element("h2", "Your label", class_="unseen"),
        element("fieldset", element("legend", "Verdict", class_="unseen"), *_choices(given)),
        element("label", element("span", "Category ", element("kbd", "t")), category),
        element("datalist", *names, id="categories"),
        element("label", element("span", "Note ", element("kbd", "m")), note),
        element("div", *_buttons(undo), class_="buttons"),
        method="post",
        action=path,
        class_="review sticky",
    )


def _buttons(undo: str | None) -> Iterator[Html]:
    yield element("button", "Send ", element("kbd", "Enter"), name="do", value="send", data_key="Enter", class_="send")
    yield element("button", "Skip ", element("kbd", "s"), name="do", value="skip", data_key="s", formnovalidate=True)
    if undo is not None:
        yield element("a", "Undo ", element("kbd", "z"), href=undo, data_key="z", class_="button")


def _choices(given: GivenItem) -> Iterator[Html]:
    """Yield the verdicts, or on a scale its values and `Cannot tell`."""
    if given.item.compared_with is not None:
        side = None if given.earlier is None else label_side(given.item, given.earlier)
        yield from (_radio("better", value, text, key, is_chosen=value == side) for value, text, key in _SIDES)
        return
    criterion, earlier = given.criterion, given.earlier
    verdict = None if earlier is None else earlier.verdict
    if criterion is None or (criterion.scale in _TWO_VALUED and not criterion.labels):
        yield from (_radio("verdict", value, text, key, is_chosen=value == verdict) for value, text, key in _VERDICTS)
        return
    score = "" if earlier is None else str(earlier.score)
    values = criterion.labels or (tuple("12345") if criterion.scale == "likert5" else ())
    for number, value in enumerate(values, start=1):
        key = str(number) if number <= _MAX_DIGIT else None
        yield _radio("score", value, value, key, is_chosen=value == score)
    if not values:
        yield _score_field(criterion, score)
    unsure, text, key = _VERDICTS[-1]
    yield _radio("verdict", unsure, text, key, is_chosen=unsure == verdict, is_required=False)


def _radio(name: str, value: str, text: str, key: str | None, *, is_chosen: bool, is_required: bool = True) -> Html:
    shown = element("kbd", key) if key is not None and key != text else None
    required = is_required and name != "score"
    field = element("input", type="radio", name=name, value=value, checked=is_chosen, required=required, data_key=key)
    return element("label", field, f" {text} ", shown, class_="choice")


def _score_field(criterion: EvaluationCriteria, score: str) -> Html:
    low, high = (
        (0, 100)
        if criterion.scale == "percent"
        else (criterion.min or 0, 1 if criterion.max is None else criterion.max)
    )
    if criterion.scale not in ("percent", "numeric"):
        return element("label", "Score ", element("input", name="score", value=score, data_key="1"))
    field = element(
        "input",
        type="number",
        name="score",
        value=score,
        min=f"{low:g}",
        max=f"{high:g}",
        step="any",
        data_key="1",
    )
    return element("label", f"Score from {low:g} to {high:g} ", field)


def sent_label(form: Query, *, is_resolution: bool = False) -> SentLabel:
    """Return the label that a form sent. Raises BadLabelError that says what is missing or too long."""
    number = form.last("item") or ""
    if not (number.isascii() and number.isdecimal() and len(number) < 10):  # noqa: PLR2004 - digits
        raise BadLabelError("`item` must be the number of an item of the queue")
    # Forms send line ends as CR LF.
    note = (form.last("note") or "").replace("\r\n", "\n").strip()
    category = " ".join((form.last("category") or "").split())
    for name, text, limit in (("note", note, MAX_NOTE_CHARS), ("category", category, MAX_CATEGORY_CHARS)):
        if len(text) > limit:
            raise BadLabelError(f"the {name} has {len(text):,} characters; shorten it to {limit:,}")
    verdict, score = _verdict_and_score(form)
    return SentLabel(
        number=int(number),
        label_id=form.last("label_id") or "",
        verdict=verdict,
        score=score,
        note=note,
        category=category,
        shown=cast(tuple[ShownPart, ...], ("expected",) if "expected" in form.all("shown") else ()),
        is_resolution=is_resolution,
        better=_side(form),
    )


def _side(form: Query) -> Side | None:
    side = form.last("better")
    if side is not None and side not in get_args(Side):
        raise BadLabelError(f"better={side!r} is unknown; use {', '.join(get_args(Side))}")
    return None if form.last("do") == "skip" else cast(Side | None, side)


def _verdict_and_score(form: Query) -> tuple[HumanVerdict | None, HumanScore]:
    """Return what was chosen; a skip has neither."""
    action, verdict, score = form.last("do") or "send", form.last("verdict"), (form.last("score") or "").strip()
    if action not in ("send", "skip"):
        raise BadLabelError(f"do={action!r} is unknown; use send or skip")
    if action == "skip" or form.last("better") is not None:
        return None, NO_SCORE
    if verdict is None and not score:
        raise BadLabelError("choose a verdict or a score, or skip the answer")
    if verdict is not None and verdict not in get_args(HumanVerdict):
        raise BadLabelError(f"the verdict {verdict!r} is unknown; use {', '.join(get_args(HumanVerdict))}")
    if verdict is not None:
        return cast(HumanVerdict, verdict), NO_SCORE
    return None, _score(score[:_MAX_SCORE_CHARS])


def _score(text: str) -> HumanScore:
    """Return a number as one, any other text as it is."""
    if text.isascii() and text.isdecimal():
        return int(text)
    try:
        return float(text)
    except ValueError:
        return text


def verdict_text(label: Label, item: QueueItem) -> str:
    """Return what a label says: its verdict or its score, or that it was skipped."""
    if item.compared_with is not None:
        side = label_side(item, label)
        return next((text.lower() for value, text, _ in _SIDES if value == side), "skipped")
    if label.verdict == "unsure":
        return "cannot tell"
    if label.verdict is not None:
        return label.verdict
    return "skipped" if label.score == NO_SCORE else str(label.score)
