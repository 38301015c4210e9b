"""Failure categories proposed by a model from the notes of people, and accepted by a person."""

from collections.abc import Collection, Sequence
from datetime import datetime
from pathlib import Path

import msgspec
from msgspec import Struct

from agentv.engine.generate import GenerationPrompt, GenerationTask, object_schema
from agentv.engine.labels.categories import load_categories
from agentv.scoring.judge_replies.generated import GeneratedCategory, parse_categories
from agentv.storage.files.line_file import write_by_rename
from agentv.storage.records.json_line import pretty
from agentv.storage.run.categories import append_category_events
from agentv.storage.run.stored import StoredRun
from agentv.types.errors import ConfigError, StorageError, nearest
from agentv.types.json_value import JsonObject
from agentv.types.records.category import CategoryEvent
from agentv.types.records.label import Label

PROPOSALS_FILE = "category-proposals.json"
MAX_NOTES = 300
"""The maximum number of notes in the request."""
MAX_NOTE_CHARACTERS = 500
MAX_CATEGORIES = 12

_TEMPLATE = """\
[[ ## notes ## ]]
{{ notes }}"""

_INSTRUCTIONS = f"""\
You are given the notes that people wrote about bad answers of an AI system, one per line, each with its number. Group \
them into categories of failures: what went wrong, not what the question was about. Use at most {MAX_CATEGORIES} \
categories. Name each in one to three plain words, and describe in one sentence what belongs to it, so that another \
person would sort the notes in the same way. Each note belongs to at most one category; leave out what fits none."""

_STRING: JsonObject = {"type": "string"}


class Proposal(Struct, frozen=True):
    """A proposed category, with the labels whose notes belong to it."""

    name: str
    description: str
    labels: tuple[int, ...]
    """Their `seq`."""
    examples: tuple[str, ...] = ()
    """Some of the notes."""


class Proposals(Struct, frozen=True):
    """What a model proposed for a run; nothing of it counts before it is accepted."""

    target: str
    proposals: tuple[Proposal, ...]


def category_prompt() -> GenerationPrompt:
    """Return the prompt for categories."""
    category = object_schema(
        {"name": _STRING, "description": _STRING, "notes": {"type": "array", "items": {"type": "integer"}}}
    )
    return GenerationPrompt(
        template=_TEMPLATE,
        instructions=_INSTRUCTIONS,
        reply_format=(
            '- "categories": a list of objects, each with "name" (one to three words), "description" (one sentence) '
            'and "notes" (the numbers of the notes that belong to it)'
        ),
        schema=object_schema({"nonce": _STRING, "categories": {"type": "array", "items": category}}),
    )


def noted_labels(run: StoredRun) -> list[Label]:
    """Return the current labels with a note that are no passes and have no category, at most `MAX_NOTES`."""
    categories = load_categories(run)
    return [
        label
        for label in run.labels()
        if (label.note or label.reasoning) and label.verdict != "pass" and label.score is not True
        if label.seq is not None and label.seq not in categories.by_label
    ][:MAX_NOTES]


def category_task(labels: Sequence[Label]) -> GenerationTask[tuple[GeneratedCategory, ...]]:
    """Return the request for categories of the labels' notes."""
    notes = "\n".join(f"{number}. {_note(label)}" for number, label in enumerate(labels, start=1))
    return GenerationTask(
        id="categories",
        values={"notes": notes},
        parse=lambda reply, nonce, shown: parse_categories(
            reply, nonce=nonce, shown=shown, notes=len(labels), limit=MAX_CATEGORIES
        ),
    )


def _note(label: Label) -> str:
    return " ".join((label.note or label.reasoning or "").split())[:MAX_NOTE_CHARACTERS]


def make_proposals(found: Sequence[GeneratedCategory], labels: Sequence[Label], *, target: str) -> Proposals:
    """Return proposals from categories that name notes by number."""
    return Proposals(
        target,
        tuple(
            Proposal(
                name=each.name,
                description=each.description,
                labels=tuple(labels[number - 1].seq or 0 for number in each.notes),
                examples=tuple(_note(labels[number - 1]) for number in each.notes[:3]),
            )
            for each in found
        ),
    )


def save_proposals(folder: Path, proposals: Proposals) -> None:
    """Store proposals in a run's folder, in place of earlier ones. Raises StorageError."""
    try:
        write_by_rename(folder / PROPOSALS_FILE, pretty(proposals))
    except OSError as error:
        raise StorageError(f"cannot write {folder / PROPOSALS_FILE}: {error.strerror or error}") from error


def load_proposals(folder: Path) -> Proposals:
    """Return the stored proposals. Raises ConfigError if there are none, StorageError if they cannot be read."""
    path = folder / PROPOSALS_FILE
    try:
        return msgspec.json.decode(path.read_bytes(), type=Proposals)
    except FileNotFoundError:
        raise ConfigError(
            f"run {folder.name} has no proposed categories; let a model propose some: "
            f"agentv generate categories {folder.name} --target NAME"
        ) from None
    except (OSError, ValueError) as error:
        raise StorageError(f"cannot read {path}: {error}") from error


def accept_proposals(run: StoredRun, *, only: Collection[str], by: str, now: datetime) -> tuple[Proposal, ...]:
    """Add the proposed categories, or only the named ones, and assign them to their labels; return them.

    A label that got a category meanwhile keeps it. Raises ConfigError for an unknown name.
    """
    proposals, categories = load_proposals(run.folder).proposals, load_categories(run)
    names = [each.name for each in proposals]
    for name in only:
        if name not in names:
            near = nearest(name, names)
            hint = f"did you mean {near!r}?" if near else f"proposed: {', '.join(map(repr, names))}"
            raise ConfigError(f"no category {name!r} is proposed; {hint}")
    accepted = tuple(each for each in proposals if not only or each.name in only)
    events: list[CategoryEvent] = []
    for each in accepted:
        labels = tuple(seq for seq in each.labels if seq not in categories.by_label)
        about = each.description or None
        events.append(CategoryEvent(time=now, by=by, type="added", name=each.name, description=about))
        if labels:
            events.append(CategoryEvent(time=now, by=by, type="assigned", name=each.name, labels=labels))
    append_category_events(run.folder, events)
    return accepted
