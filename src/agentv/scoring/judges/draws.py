"""Draws of answers for review: which answers people label, with which probability, and the weights that follow."""

import math
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from agentv.scoring.counting.sampling import Sample
from agentv.types.errors import ConfigError, nearest
from agentv.types.records.answer import AnswerRef, ResultKey
from agentv.types.records.label import Draw, Label
from agentv.types.records.review import DrawnQueue, DrawnStratum, QueueItem, ReviewQueue, Stratify

ALL = "all"
"""The stratum of answers that are not grouped."""
UNTAGGED = "untagged"
"""The stratum of answers to cases without tags."""

AnswerName = tuple[ResultKey, int]
"""The slot of a labelled answer, and the `seq` of the answer."""


class DrawRow(Struct, frozen=True):
    """An answer that can be drawn."""

    slot: ResultKey
    answer_key: str
    answer_seq: int
    verdict: str = ""
    """The verdict that answers are grouped by, such as that of the judge."""
    tags: tuple[str, ...] = ()

    @property
    def name(self) -> tuple[ResultKey, int]:
        """The identity of the answer."""
        return self.slot, self.answer_seq

    def stratum(self, stratify: Stratify) -> str:
        """Return the name of the answer's stratum. Cases with the same set of tags are one stratum."""
        match stratify:
            case "verdict":
                return self.verdict
            case "target":
                return self.slot.target
            case "tag":
                return ", ".join(sorted(self.tags)) or UNTAGGED
            case "none":
                return ALL


class GoldenRow(Struct, frozen=True):
    """An answer with a known verdict, to be labelled again."""

    row: DrawRow
    passed: bool


def draw_queue(
    rows: Iterable[DrawRow],
    *,
    n: int,
    seed: int,
    stratify: Stratify = "none",
    allocation: Mapping[str, int] | None = None,
    reviewers: Sequence[str] = ("",),
    overlap: float = 0.0,
    golden: Sequence[GoldenRow] = (),
    golden_every: int | None = None,
) -> DrawnQueue:
    """Draw `n` answers at random, within strata, and assign them to reviewers.

    `allocation` has the number of answers of some strata, or of all; the others share the rest in proportion to their
    sizes, with at least one answer each, since a stratum without any would be in no estimate. Within a stratum each
    answer has the same probability. All reviewers get a random share `overlap` of the answers, each other answer goes
    to one reviewer. After every `golden_every` answers a reviewer gets a golden one.

    The result depends on the seed and the answers only, not on their order. Raises ConfigError for numbers that do not
    fit the answers.
    """
    order = _Order(seed)
    strata: defaultdict[str, list[DrawRow]] = defaultdict(list)
    for row in rows:
        strata[row.stratum(stratify)].append(row)
    names = sorted(strata)
    counts = _allocated({name: len(strata[name]) for name in names}, n, allocation or {})
    drawn = [(name, row) for name in names for row in order.sorted("draw", strata[name])[: counts[name]]]
    drawn = sorted(drawn, key=lambda each: order.key("review", each[1]))
    found = tuple(DrawnStratum(name, counts[name], len(strata[name])) for name in names if counts[name])
    p = {each.name: each.p for each in found}
    shared = _shared([row for _, row in drawn], overlap, reviewers, order)
    turns = iter(range(len(drawn)))
    items = [
        _item(
            row, reviewers=shared.get(row.name) or (reviewers[next(turns) % len(reviewers)],), stratum=name, p=p[name]
        )
        for name, row in drawn
    ]
    if golden and golden_every:
        items = list(_with_golden(items, golden, golden_every, reviewers, order))
    return DrawnQueue(found, tuple(items))


class _Order(Struct, frozen=True):
    """Random orders of answers that depend on a seed only."""

    seed: int

    def key(self, purpose: str, row: DrawRow) -> tuple[int, str]:
        """Return the sort key of an answer, which is another one for each purpose."""
        name = "\0".join(map(str, (purpose, *row.slot.to_json().values(), row.answer_seq)))
        return Sample(seed=self.seed).hash_of(name.encode("utf-8", "surrogatepass")), name

    def sorted(self, purpose: str, rows: Iterable[DrawRow]) -> list[DrawRow]:
        """Return answers in random order."""
        return sorted(rows, key=lambda row: self.key(purpose, row))


def _item(row: DrawRow, **fields: object) -> QueueItem:
    return QueueItem(row.slot, row.answer_key, AnswerRef(row.answer_seq), **fields)  # type: ignore[arg-type]


def _shared(
    drawn: Sequence[DrawRow], overlap: float, reviewers: Sequence[str], order: _Order
) -> Mapping[Hashable, tuple[str, ...]]:
    """Return the answers that all reviewers label."""
    if len(reviewers) <= 1:
        return {}
    chosen = order.sorted("overlap", drawn)[: round(overlap * len(drawn))]
    return {row.name: tuple(reviewers) for row in chosen}


def _with_golden(
    items: Sequence[QueueItem], golden: Sequence[GoldenRow], every: int, reviewers: Sequence[str], order: _Order
) -> Iterator[QueueItem]:
    """Yield the items, and for each reviewer a golden one after `every` others, each once, in an order of its own."""
    verdicts = {each.row.name: each.passed for each in golden}
    rows = [each.row for each in golden]
    waiting = {name: order.sorted(f"golden\0{name}", rows) for name in reviewers}
    done = Counter[str]()
    for item in items:
        yield item
        for name in item.reviewers:
            done[name] += 1
            if done[name] % every == 0 and waiting[name]:
                row = waiting[name].pop()
                yield _item(row, reviewers=(name,), golden="pass" if verdicts[row.name] else "fail")


def _allocated(sizes: Mapping[str, int], n: int, asked: Mapping[str, int]) -> dict[str, int]:
    """Return the number of answers to draw by stratum. Raises ConfigError."""
    _check_allocation(sizes, n, asked)
    rest = {name: size for name, size in sizes.items() if name not in asked}
    left = min(n - sum(asked.values()), sum(rest.values()))
    if left < len(rest):
        raise ConfigError(
            f"{n:,} answers do not reach all {len(sizes):,} strata, and a stratum without an answer is in no estimate; "
            "draw more answers, or fewer for the strata that are named"
        )
    counts = dict.fromkeys(rest, 1)
    # One answer after another goes to the stratum that is furthest below its share.
    total = sum(rest.values())
    for _ in range(left - len(rest)):
        open_ = [name for name, size in rest.items() if counts[name] < size]
        counts[max(open_, key=lambda name: rest[name] / total * left - counts[name])] += 1
    return {**counts, **asked}


def _check_allocation(sizes: Mapping[str, int], n: int, asked: Mapping[str, int]) -> None:
    if not sizes:
        raise ConfigError("there is no answer to draw: all are in earlier queues, or the run has none")
    if n < 1:
        raise ConfigError(f"a queue has 1 answer or more, not {n}")
    for name, count in asked.items():
        if name not in sizes:
            near = nearest(name, sizes)
            hint = f"; did you mean {near!r}?" if near else f"; there are: {', '.join(map(repr, sizes))}"
            raise ConfigError(f"no answer has the stratum {name!r}{hint}")
        if not 1 <= count <= sizes[name]:
            raise ConfigError(f"{count:,} answers of the stratum {name!r} cannot be drawn; it has {sizes[name]:,}")
    if sum(asked.values()) > n:
        raise ConfigError(f"the strata ask for {sum(asked.values()):,} answers together, but the queue has {n:,}")


def rows_to_draw(rows: Iterable[DrawRow], earlier: Iterable[ReviewQueue], *, stratify: Stratify) -> list[DrawRow]:
    """Return the answers that no earlier queue has.

    Raises ConfigError if an earlier queue has other strata: the probability of an answer to be in any of the queues
    could then no longer be computed from its stratum.
    """
    taken: set[Hashable] = set()
    for queue in earlier:
        if queue.stratify != stratify:
            raise ConfigError(
                f"queue {queue.name!r} of this criterion was drawn by {queue.stratify!r}; "
                f"draw more of it by {queue.stratify!r}, too"
            )
        taken |= {(item.slot, item.answer_ref.seq) for item in queue.items if item.golden is None}
    return [row for row in rows if row.name not in taken]


SAMPLE = "import"
"""The name of the queue of labels that people gave to a random sample of their own."""


def as_random_sample(labels: Sequence[Label], answers: int) -> list[Label]:
    """Return the labels as those of a random sample of the run's `answers`; labels with a draw stay as they are."""
    names: defaultdict[str, set[AnswerName]] = defaultdict(set)
    for label in labels:
        if label.draw is None and not label.golden:
            names[label.criterion].add((label.slot, label.answer_seq))
    draws = {
        criterion: Draw(SAMPLE, 0, ALL, min(len(each) / answers, 1.0), len(each), answers)
        for criterion, each in names.items()
    }
    return [
        replace(label, draw=draws[label.criterion]) if label.draw is None and not label.golden else label
        for label in labels
    ]


def label_weights(labels: Iterable[Label]) -> dict[AnswerName, float]:
    """Return the weight of each drawn answer, 1 / the probability that it is among those that were reviewed.

    With one queue this is 1 / p, up to a common factor while the queue is not finished. A later queue draws from the
    answers that earlier ones left, so that an answer of a stratum is in any of them with 1 - Π (1 - p): the recorded
    p stay as they were. A queue of which a share c is reviewed, in random order, counts with c·p.
    """
    draws: dict[AnswerName, Draw] = {}
    for label in labels:
        if label.draw is not None:
            draws.setdefault((label.slot, label.answer_seq), label.draw)
    reviewed, planned = Counter(draw.queue for draw in draws.values()), Counter[str]()
    by_stratum: defaultdict[str, dict[str, Draw]] = defaultdict(dict)
    for draw in dict.fromkeys(draws.values()):
        planned[draw.queue] += draw.n
        by_stratum[draw.stratum][draw.queue] = draw
    weights: dict[Draw, float] = {}
    for draw in dict.fromkeys(draws.values()):
        # Of its own queue the draw itself counts: in a run merged from shards, each has a stratum of this name.
        all_draws = {**by_stratum[draw.stratum], draw.queue: draw}.values()
        missed = (1 - each.p * min(reviewed[each.queue] / planned[each.queue], 1.0) for each in all_draws)
        weights[draw] = 1 / (1 - math.prod(missed))
    return {name: weights[draw] for name, draw in draws.items()}


def kish_n(weights: Sequence[float]) -> float:
    """Return the effective number of weighted answers, (Σ w)² / Σ w². Kish 1965."""
    squares = math.fsum(weight * weight for weight in weights)
    return math.fsum(weights) ** 2 / squares if squares else 0.0
