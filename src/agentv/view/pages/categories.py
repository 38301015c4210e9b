"""The failure categories of a run: how often each occurs, the notes without one, and their changes by reviewers."""

from collections.abc import Iterator, Sequence

from agentv.engine.labels.categories import (
    assign_category,
    load_categories,
    load_category_rates,
    merge_categories,
    rename_category,
)
from agentv.engine.running.clock import make_clock
from agentv.reports.run.report_json import interval_to_json
from agentv.reports.text.amounts import count_text, percent_interval_text, percent_text
from agentv.reports.text.markup import Html, element
from agentv.scoring.judges.categories import Categories, CategoryRate
from agentv.storage.run.stored import StoredRun
from agentv.types.errors import ConfigError
from agentv.types.json_value import JsonObject
from agentv.types.records.label import Label
from agentv.view.access import READER
from agentv.view.address import Query, path_to
from agentv.view.elements import table
from agentv.view.pages.label_form import MAX_CATEGORY_CHARS
from agentv.view.pages.page import Page, Request, Saved
from agentv.view.pages.review import reviewer_of
from agentv.view.pages.run import run_links, run_trail
from agentv.view.reviews import BadLabelError

_MAX_LISTED = 200
_PICKED = "The labelled answers were picked, not drawn at random: the shares are those of the labelled answers."


def categories_page(request: Request) -> Page:
    """Return the categories of a run with their shares, and the notes that have none."""
    stored = request.library.open(request.names["run"])
    rates, categories = load_category_rates(stored), load_categories(stored)
    path = path_to("categories", stored.run_id)
    may_change = request.reviewer != READER
    notes = [each for each in stored.labels() if _is_open(each, categories)]
    names = element("datalist", *(element("option", value=name) for name in categories.names), id="categories")
    parts = [
        element("h1", "Failure categories"),
        *(part for criterion, each in rates.items() for part in _rates(criterion, each)),
        element("p", "No label has a category yet.", class_="notice") if not categories.names else None,
        *(_changes(path, categories) if may_change and categories.names else ()),
        element("h2", f"Notes without a category ({len(notes):,})"),
        _notes(stored, notes[:_MAX_LISTED], path if may_change else None),
        element("p", f"and {len(notes) - _MAX_LISTED:,} more") if len(notes) > _MAX_LISTED else None,
        names if may_change else element("p", f"Reviewers sort notes: agentv review {stored.run_id}"),
    ]
    return Page(
        title=f"Categories of {stored.run.name or stored.run_id}",
        parts=parts,
        data={
            "categories": [_rate_json(criterion, each) for criterion, found in rates.items() for each in found],
            "notes": [_note_json(each) for each in notes],
        },
        trail=run_trail(stored),
        links=run_links(stored, request.library.run_before(stored)),
    )


def change_categories(request: Request) -> Saved:
    """Assign, rename or merge categories, as a form says, and store who did it."""
    reviewer = reviewer_of(request)
    stored = request.library.open(request.names["run"])
    form, now = request.form, make_clock()()
    name = " ".join((form.last("name") or "").split())
    if len(name) > MAX_CATEGORY_CHARS:
        raise BadLabelError(f"the category has {len(name):,} characters; shorten it to {MAX_CATEGORY_CHARS}")
    try:
        match form.last("do"):
            case "assign":
                event = assign_category(stored, _label_numbers(form.all("label")), name, by=reviewer, now=now)
            case "rename":
                event = rename_category(stored, _only(form.all("old")), name, by=reviewer, now=now)
            case "merge":
                event = merge_categories(stored, _chosen(form.all("old")), name, by=reviewer, now=now)
            case other:
                raise BadLabelError(f"do={other!r} is unknown; use assign, rename or merge")
    except ConfigError as error:
        raise BadLabelError(str(error)) from None
    address = path_to("categories", stored.run_id)
    return Saved(address, {"type": event.type, "name": event.name, "names": list(event.names)})


def _label_numbers(texts: Sequence[str]) -> list[int]:
    numbers = [int(each) for each in texts if each.isascii() and each.isdecimal() and len(each) < 10]  # noqa: PLR2004 - digits
    if not texts or len(numbers) < len(texts):
        raise BadLabelError("`label` must be the number of a label of this run")
    return numbers


def _chosen(names: Sequence[str]) -> Sequence[str]:
    if not names:
        raise BadLabelError("choose the categories to merge")
    return names


def _only(names: Sequence[str]) -> str:
    if len(names) != 1:
        raise BadLabelError("choose one category to rename")
    return names[0]


def _is_open(label: Label, categories: Categories) -> bool:
    return bool(label.note) and not label.golden and (label.seq is None or label.seq not in categories.by_label)


def _rates(criterion: str, rates: Sequence[CategoryRate]) -> Iterator[Html]:
    if not rates:
        return
    yield element("h2", criterion, dir="auto")
    rows = [
        element(
            "tr",
            element("th", each.name, element("small", each.description) if each.description else None, scope="row"),
            element("td", f"{each.answers:,}"),
            element("td", percent_text(each.rate)),
            element("td", percent_interval_text(each.interval)),
            dir="auto",
        )
        for each in rates
    ]
    yield table(["category", "answers", "share of all", "95 % CI"], rows, label=f"Categories of {criterion}")
    yield element("p", f"of {count_text(rates[0].labelled, 'labelled answer')}", class_="sentence")
    if rates[0].is_picked:
        yield element("p", _PICKED, class_="sentence")


def _changes(path: str, categories: Categories) -> Iterator[Html]:
    choices = [
        element("label", element("input", type="checkbox", name="old", value=name), f" {name}", class_="choice")
        for name in categories.names
    ]
    yield element(
        "details",
        element("summary", "Merge or rename"),
        element(
            "form",
            element("fieldset", element("legend", "Categories"), *choices),
            element("label", element("span", "New name"), _name_field()),
            element(
                "div",
                element("button", "Merge", name="do", value="merge"),
                element("button", "Rename", name="do", value="rename"),
                class_="buttons",
            ),
            method="post",
            action=path,
            class_="review",
        ),
    )


def _name_field(key: str | None = None) -> Html:
    return element(
        "input",
        name="name",
        list="categories",
        required=True,
        maxlength=str(MAX_CATEGORY_CHARS),
        autocomplete="off",
        data_key=key,
        dir="auto",
    )


def _notes(stored: StoredRun, notes: Sequence[Label], path: str | None) -> Html:
    """Return the notes; with a path, as a form that assigns a category to those that are chosen."""
    if path is None or not notes:
        return element("ul", *(element("li", *_note(stored, each), dir="auto") for each in notes))
    choices = [
        element(
            "label", element("input", type="checkbox", name="label", value=str(each.seq)), " ", *_note(stored, each)
        )
        for each in notes
    ]
    field = element("label", element("span", "Category ", element("kbd", "t")), _name_field("t"))
    button = element("div", element("button", "Assign", name="do", value="assign", class_="send"), class_="buttons")
    items = [element("li", each, dir="auto") for each in choices]
    return element(
        "form", element("ul", *items, class_="chosen"), field, button, method="post", action=path, class_="review"
    )


def _note(stored: StoredRun, label: Label) -> Iterator[Html | str]:
    slot = label.slot
    which = (("target", slot.target), ("prompt", slot.prompt or ""), ("trial", str(slot.trial + 1)))
    yield f"{label.note} "
    yield element("a", slot.eval_id, href=Query.of(which).address(path_to("r", stored.run_id, "case", slot.eval_id)))
    yield element("small", f" {label.annotator}")


def _rate_json(criterion: str, rate: CategoryRate) -> JsonObject:
    return {
        "criterion": criterion,
        "category": rate.name,
        "answers": rate.answers,
        "labelled": rate.labelled,
        "rate": rate.rate,
        "interval": interval_to_json(rate.interval),
    }


def _note_json(label: Label) -> dict[str, str | int | None]:
    return {"label": label.seq, "eval_id": label.slot.eval_id, "note": label.note, "annotator": label.annotator}
