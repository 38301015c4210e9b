"""Changes of a run's failure categories: lines of categories.jsonl."""

from datetime import datetime
from typing import Literal, TypeAlias

from msgspec import Struct

from agentv.types.stored import CATEGORY_SCHEMA, always

CategoryChange: TypeAlias = Literal["added", "renamed", "merged", "assigned"]


class CategoryEvent(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One change. The history stays: a category is renamed and merged by a further line."""

    schema: str = always(CATEGORY_SCHEMA)
    seq: int | None = None
    """The number of the line; None before it is written."""
    time: datetime
    by: str = ""
    """The person who made the change."""
    type: CategoryChange
    name: str
    """The category: the new one, the new name, the one merged into, or the assigned one; empty to assign none."""
    names: tuple[str, ...] = ()
    """The earlier name of a renamed category, or those that were merged."""
    description: str | None = None
    labels: tuple[int, ...] = ()
    """The `seq` of the labels that the category is assigned to."""
