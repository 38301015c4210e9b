"""The failure categories of a run: how often each occurs, and the notes without one."""

from collections import defaultdict
from collections.abc import Sequence

from agentv.reports.text.amounts import count_text
from agentv.reports.text.markup import Html, element
from agentv.types.records.label import Label
from agentv.view.address import path_to
from agentv.view.elements import table
from agentv.view.pages.page import Page, Request, Saved
from agentv.view.pages.review import reviewer_of
from agentv.view.pages.run import run_links, run_trail
from agentv.view.reviews import BadLabelError

_MAX_LISTED = 200


def categories_page(request: Request) -> Page:
    """Return the categories of a run, and the notes that have none."""
    stored = request.library.open(request.names["run"])
    labels = [each for each in stored.labels() if not each.golden]
    by_category: defaultdict[str, list[Label]] = defaultdict(list)
    for label in labels:
        if label.category:
            by_category[label.category].append(label)
    ordered = sorted(by_category.items(), key=lambda each: (-len(each[1]), each[0]))
    notes = [each for each in labels if each.note and not each.category]
    rows = [_row(name, found) for name, found in ordered]
    parts = [
        element("h1", "Failure categories"),
        table(["category", "labels", "answers"], rows, label="Categories")
        if rows
        else element("p", "No label has a category. Reviewers give one in the field Category.", class_="notice"),
        element("h2", "Notes without a category"),
        element("ul", *(_note(stored.run_id, each) for each in notes[:_MAX_LISTED]))
        if notes
        else element("p", "None."),
        element("p", f"and {len(notes) - _MAX_LISTED:,} more") if len(notes) > _MAX_LISTED else None,
    ]
    return Page(
        title=f"Categories of {stored.run.name or stored.run_id}",
        parts=parts,
        data={
            "categories": {name: len(found) for name, found in ordered},
            "notes": [_note_json(each) for each in notes],
        },
        trail=run_trail(stored),
        links=run_links(stored, request.library.run_before(stored)),
    )


def change_categories(request: Request) -> Saved:
    """Assign, merge or rename categories."""
    reviewer_of(request)
    raise BadLabelError("categories cannot be changed yet")


def _row(name: str, labels: Sequence[Label]) -> Html:
    answers = {(each.slot, each.answer_seq) for each in labels}
    return element(
        "tr",
        element("th", name, scope="row", dir="auto"),
        element("td", f"{len(labels):,}"),
        element("td", count_text(len(answers), "answer")),
    )


def _note(run_id: str, label: Label) -> Html:
    link = element("a", label.slot.eval_id, href=path_to("r", run_id, "case", label.slot.eval_id), dir="auto")
    return element("li", link, f" — {label.note} ", element("small", label.annotator), dir="auto")


def _note_json(label: Label) -> dict[str, str | None]:
    return {"eval_id": label.slot.eval_id, "note": label.note, "annotator": label.annotator}
