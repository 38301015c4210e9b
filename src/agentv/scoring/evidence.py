"""Objects that a judge was shown. One that comes back unchanged is an echo, never the judge's own verdict."""

from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from agentv.scoring.json_objects import canonical, find_objects, nested_objects, nested_texts
from agentv.types.json_value import JsonObject

MAX_DEPTH = 3
"""How often JSON inside JSON strings is opened again."""

VERDICT_KEYS = ("score", "checks", "criteria", "better")
"""What an object has that could pass for a verdict."""


class Evidence(Struct, frozen=True):
    """The objects in the judged texts that could pass for a verdict, as canonical JSON.

    `complete` is False when some texts were too tangled to be read to their end.
    """

    objects: frozenset[str]
    complete: bool = True

    def holds(self, found: JsonObject) -> bool:
        """Whether the judge was shown this very object."""
        return canonical(found) in self.objects


def collect_evidence(texts: Iterable[str], *, keys: Sequence[str] = VERDICT_KEYS) -> Evidence:
    """Read the objects with one of the keys: nested ones too, and those inside JSON strings."""
    complete = True
    objects: set[str] = set()
    for text in texts:
        for found, whole in _objects_within(text, MAX_DEPTH, keys):
            complete = complete and whole
            if found is not None:
                objects.add(found)
    return Evidence(frozenset(objects), complete)


def _objects_within(text: str, depth: int, keys: Sequence[str]) -> Iterator[tuple[str | None, bool]]:
    if "{" not in text:
        return
    # A judge may quote with its escapes taken off: {\"score\": 1} comes back as {"score": 1}.
    for reading in dict.fromkeys((text, text.replace('\\"', '"'))):
        found = find_objects(reading)
        yield None, found.complete
        for outer in found.objects:
            for each in nested_objects(outer):
                if any(key in each for key in keys):
                    yield canonical(each), True
            for inner in nested_texts(outer):
                if depth > 0:
                    yield from _objects_within(inner, depth - 1, keys)
                elif "{" in inner:
                    yield None, False
