"""Parsing of generated requirements and cases from a model's reply.

The list is taken from the object that carries the nonce of the call. Without such an object, objects that also occur in
the prompt are ignored, because a document there may contain a list of requirements of its own.
"""

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from agentv.scoring.judge_replies.json_objects import collect_evidence, find_objects, finite_number, nested_objects
from agentv.scoring.judge_replies.replies import UnusableReplyError
from agentv.scoring.keys.identity import make_id
from agentv.types.cases import RubricItem
from agentv.types.json_value import JsonObject, JsonValue

MAX_RUBRICS = 7
"""The maximum number of requirements of a case; a case with more should be split."""


class GeneratedCase(Struct, frozen=True):
    """A case as a model wrote it; `id` is not checked yet."""

    id: str
    input: str
    expected_outcome: str
    rubrics: tuple[RubricItem, ...] = ()


class GeneratedCategory(Struct, frozen=True):
    """A failure category as a model proposed it, with the numbers of the notes that belong to it, from 1."""

    name: str
    description: str
    notes: tuple[int, ...] = ()


def parse_categories(
    reply: str, *, nonce: str, shown: Iterable[str], notes: int, limit: int
) -> tuple[GeneratedCategory, ...]:
    """Return the first `limit` categories in a reply on `notes` notes. Raises UnusableReplyError.

    Each note belongs to the first category that names it, and a category without notes is left out.
    """
    taken: set[int] = set()
    found: dict[str, GeneratedCategory] = {}
    for value in _list_in(reply, "categories", nonce=nonce, shown=shown, single="name"):
        fields = value if isinstance(value, Mapping) else {}
        name, numbers = " ".join(_text(fields.get("name")).split()), fields.get("notes")
        given = numbers if isinstance(numbers, list) else ()
        own = [number for number in map(_note_number, given) if 1 <= number <= notes and number not in taken]
        if name and own and name not in found:
            taken.update(own)
            found[name] = GeneratedCategory(name, _text(fields.get("description")), tuple(dict.fromkeys(own)))
    if not found:
        raise UnusableReplyError("names no category with the numbers of its notes")
    return tuple(found.values())[:limit]


def _note_number(value: JsonValue) -> int:
    """Return the number of a note, 0 for anything else."""
    number = finite_number(value) if not isinstance(value, str) else float(value) if value.isdecimal() else None
    return int(number) if number is not None and number == int(number) else 0


def parse_rubrics(reply: str, *, nonce: str, shown: Iterable[str]) -> tuple[RubricItem, ...]:
    """Return the requirements in a reply, 1 to 7. Raises UnusableReplyError."""
    found = _list_in(reply, "rubrics", nonce=nonce, shown=shown, single="description")
    items = read_rubrics(found)
    if not items:
        raise UnusableReplyError("names no requirement with a description")
    if len(items) > MAX_RUBRICS:
        raise UnusableReplyError(f"names {len(items)} requirements; at most {MAX_RUBRICS} are allowed")
    return items


def parse_cases(reply: str, *, nonce: str, shown: Iterable[str], limit: int) -> tuple[GeneratedCase, ...]:
    """Return the first `limit` cases in a reply. Raises UnusableReplyError."""
    found = _list_in(reply, "cases", nonce=nonce, shown=shown, single="input")
    cases = tuple(case for case in map(_read_case, found) if case is not None)
    if not cases:
        raise UnusableReplyError("holds no case with an input and an expected outcome")
    return cases[:limit]


def read_rubrics(values: Iterable[JsonValue]) -> tuple[RubricItem, ...]:
    """Return the readable requirements: texts, or objects with a description. Each gets a unique id."""
    items: dict[str, RubricItem] = {}
    described: set[str] = set()
    for value in values:
        fields: JsonObject = value if isinstance(value, Mapping) else {"description": value}
        description = _text(fields.get("description"))
        if not description or description in described:
            continue
        described.add(description)
        given = _text(fields.get("id"))
        id_ = make_id(given or description, fallback=f"rubric-{len(items) + 1}", taken=items)
        weight = finite_number(fields.get("weight"))
        items[id_] = RubricItem(
            id=id_,
            description=description,
            weight=weight if weight is not None and weight > 0 else 1.0,
            required=fields.get("required") is True,
        )
    return tuple(items.values())


def _read_case(value: JsonValue) -> GeneratedCase | None:
    if not isinstance(value, Mapping):
        return None
    given, outcome = _text(value.get("input")), _text(value.get("expected_outcome"))
    if not given or not outcome:
        return None
    rubrics = value.get("rubrics")
    items = read_rubrics(rubrics) if isinstance(rubrics, list) else ()
    return GeneratedCase(_text(value.get("id")), given, outcome, items[:MAX_RUBRICS])


def _text(value: JsonValue) -> str:
    number = finite_number(value)
    return f"{number:g}" if number is not None else value.strip() if isinstance(value, str) else ""


def _list_in(reply: str, key: str, *, nonce: str, shown: Iterable[str], single: str) -> Sequence[JsonValue]:
    """Return the list under `key`; without that key, the outermost objects of the reply that have the key `single`.

    A reply may be the bare list, whose items are such objects. A list under `key` that was cut off or is too long to
    read is rejected, because it would be incomplete; of a bare list that was cut off, the complete items are returned.
    """
    outer = find_objects(reply).objects
    all_objects = [each for found in outer for each in nested_objects(found)]
    objects_with_key = [each for each in all_objects if isinstance(each.get(key), list)]
    signed = [each for each in objects_with_key if each.get("nonce") == nonce]
    quoted = collect_evidence(shown, keys=(key, single))
    for each in signed or [each for each in objects_with_key if not quoted.contains(each)]:
        found = each[key]
        return found if isinstance(found, list) else ()
    singles = [each for each in outer if single in each and not quoted.contains(each)]
    if not singles or f'"{key}"' in reply:
        raise UnusableReplyError(f'holds no JSON object with a list "{key}"')
    return singles
