"""A review queue: answers of a run drawn for people to label, as stored in `reviews/` of the run's folder."""

from collections.abc import Mapping
from datetime import datetime
from typing import Literal, TypeAlias

from msgspec import Struct, field

from agentv.types.records.answer import AnswerRef, ResultKey
from agentv.types.records.label import ComparedAnswer, Draw, Probability
from agentv.types.stored import REVIEW_SCHEMA, always

Stratify: TypeAlias = Literal["verdict", "target", "tag", "none"]
"""What the answers are grouped by before they are drawn."""


class DrawnStratum(Struct, frozen=True):
    """A group of answers, of which some were drawn."""

    name: str
    n: int
    """The number of drawn answers."""
    size: int = field(name="N")
    """The number of answers that could be drawn: those that no earlier queue has."""

    @property
    def p(self) -> float:
        """The probability with which each answer of the stratum was drawn."""
        return self.n / self.size


class QueueItem(Struct, frozen=True, omit_defaults=True):
    """An answer of a queue, and the reviewers who label it."""

    slot: ResultKey
    answer_key: str
    answer_ref: AnswerRef
    reviewers: tuple[str, ...]
    stratum: str = ""
    """Empty for a golden item."""
    p: Probability = 1.0
    """The probability with which it was drawn; it never changes."""
    golden: Literal["pass", "fail"] | None = None
    """The known verdict on a golden item, which was not drawn and counts in no rate."""
    compared_with: ComparedAnswer | None = None
    """The answer to the same case in another run, if reviewers compare the two."""
    is_swapped: bool = False
    """True if the other run's answer is shown first."""


class DrawnQueue(Struct, frozen=True):
    """The answers that were drawn, in the order of review, and the strata that they were drawn from."""

    strata: tuple[DrawnStratum, ...]
    items: tuple[QueueItem, ...]
    """With a golden item after every k others of each reviewer, if golden items were given."""


class ReviewQueue(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A stored queue: what was drawn, and the plan by which it can be drawn again. It never changes."""

    schema: str = always(REVIEW_SCHEMA)
    name: str
    run_id: str
    created_at: datetime
    criterion: str
    """The criterion of the labels."""
    seed: int
    n: int
    """The number of answers that were asked for."""
    stratify: Stratify = "none"
    allocation: Mapping[str, int] = field(default_factory=dict)
    """The numbers of answers that were asked for by stratum; other strata share the rest in proportion."""
    overlap: float = 0.0
    """The share of the answers that all reviewers label."""
    reviewers: tuple[str, ...] = ()
    golden_every: int | None = None
    blind: bool = True
    """True if reviewers see neither judge nor target nor other reviewers."""
    compared_with: str | None = None
    """The other run, if reviewers compare its answers with those of this one."""
    after: tuple[str, ...] = ()
    """The earlier queues of the criterion, whose answers were left out."""
    strata: tuple[DrawnStratum, ...]
    items: tuple[QueueItem, ...]

    def draw_of(self, item: QueueItem) -> Draw | None:
        """Return how an item was drawn, for its label; None for a golden item."""
        named = [each for each in self.strata if each.name == item.stratum]
        # In a run merged from shards, a stratum may be there once for each probability.
        stratum = min(named, key=lambda each: abs(each.p - item.p), default=None)
        if item.golden is not None or stratum is None:
            return None
        return Draw(self.name, self.seed, item.stratum, item.p, stratum.n, stratum.size)
