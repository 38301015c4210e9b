"""The branches of a transcript whose records name their parents."""

from bisect import bisect_left
from collections.abc import Callable, Sequence

from agentv.messages.transcripts.turns import Record
from agentv.types.json_value import JsonObject, JsonValue


def path_to_last(
    records: Sequence[Record],
    *,
    id_of: Callable[[JsonObject], JsonValue],
    parent_of: Callable[[JsonObject], JsonValue],
) -> tuple[list[Record], list[Record]]:
    """Return the records from the root to the last one with an id, and the others, each in the order of the lines.

    The record before it in the file takes the place of a parent that is missing, such as one on a broken line. A record
    without an id has no branches and belongs to both ends of the tree: it stays on the path.
    """
    places = {str(number): place for place, each in enumerate(records) if (number := id_of(each.value)) is not None}
    numbered = sorted(places.values())
    on_path = {place for place, each in enumerate(records) if id_of(each.value) is None}
    place = numbered[-1] if numbered else -1
    while place >= 0 and place not in on_path:
        on_path.add(place)
        parent = parent_of(records[place].value)
        if parent is None:
            break
        known = places.get(str(parent), -1)
        place = known if 0 <= known < place else _before(numbered, place)
    path = [each for place, each in enumerate(records) if place in on_path]
    return path, [each for place, each in enumerate(records) if place not in on_path]


def _before(numbered: Sequence[int], place: int) -> int:
    at = bisect_left(numbered, place)
    return numbered[at - 1] if at else -1
