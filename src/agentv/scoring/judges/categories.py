"""Failure categories: those of labels after all changes, and the share of answers in each."""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from msgspec import Struct, field

from agentv.scoring.judges.draws import AnswerName, label_weights
from agentv.scoring.judges.people_rate import MIN_LABELS_FOR_INTERVAL, weighted_stratum
from agentv.scoring.statistics.strata import stratified_interval, stratified_rate
from agentv.types.errors import ConfigError, nearest
from agentv.types.records.category import CategoryEvent
from agentv.types.records.label import Label
from agentv.types.summaries import Interval


class Categories(Struct, frozen=True):
    """The categories of a run after all changes."""

    descriptions: Mapping[str, str] = field(default_factory=dict)
    """The description of each category, in the order in which they came up; may be empty."""
    by_label: Mapping[int, str] = field(default_factory=dict)
    """The category of each label that has one, by the `seq` of the label."""

    @property
    def names(self) -> list[str]:
        """The names of the categories."""
        return list(self.descriptions)


class CategoryRate(Struct, frozen=True):
    """The share of answers in a category, among all that could be drawn."""

    name: str
    description: str
    answers: int
    """The number of labelled answers in the category."""
    labelled: int
    """The number of labelled answers with a verdict."""
    rate: float
    interval: Interval | None
    is_picked: bool
    """True if the labelled answers were not drawn at random."""


def make_categories(labels: Iterable[Label], events: Iterable[CategoryEvent]) -> Categories:
    """Return the categories of all labels of a run (also of replaced ones) after all changes.

    A renamed or merged name stands for its successor from then on, also in later labels, until it is added again.
    """
    labels = list(labels)
    successor: dict[str, str] = {}
    descriptions: dict[str, str] = {}
    assigned: dict[int, str] = {}
    for event in events:
        match event.type:
            case "added":
                successor.pop(event.name, None)
                descriptions[event.name] = event.description or descriptions.get(event.name, "")
            case "renamed" | "merged":
                _replace_names(event, successor, descriptions)
            case "assigned":
                assigned.update(dict.fromkeys(event.labels, event.name))
    by_label: dict[int, str] = {}
    for label in labels:
        seq = -1 if label.seq is None else label.seq
        name = assigned.get(seq, label.category or "")
        if name:
            by_label[seq] = successor.get(name, name)
            descriptions.setdefault(by_label[seq], "")
    return Categories(descriptions, by_label)


def _replace_names(event: CategoryEvent, successor: dict[str, str], descriptions: dict[str, str]) -> None:
    old = [name for name in event.names if name != event.name]
    inherited = next((descriptions[name] for name in old if descriptions.get(name)), "")
    successor.update({name: event.name for name, now in successor.items() if now in old})
    successor.update(dict.fromkeys(old, event.name))
    successor.pop(event.name, None)
    descriptions[event.name] = event.description or descriptions.get(event.name) or inherited
    for name in old:
        descriptions.pop(name, None)


def merged_category_events(
    labels: Iterable[Label], events: Sequence[CategoryEvent], wanted: Mapping[int, str], *, now: datetime
) -> list[CategoryEvent]:
    """Return the changes of several runs, and further ones that leave each label in the category it had in its run.

    `wanted` has this category by the `seq` of the label, empty for none. A name that only one of the runs changed would
    change in the others, too.
    """
    labels = list(labels)
    found = list(events)
    by_label = make_categories(labels, found).by_label
    lost = {name for seq, name in wanted.items() if name and by_label.get(seq, "") != name}
    found += [CategoryEvent(time=now, type="added", name=name) for name in sorted(lost)]
    by_label = make_categories(labels, found).by_label
    moved: defaultdict[str, list[int]] = defaultdict(list)
    for seq, name in wanted.items():
        if by_label.get(seq, "") != name:
            moved[name].append(seq)
    found += [
        CategoryEvent(time=now, type="assigned", name=name, labels=tuple(seqs)) for name, seqs in sorted(moved.items())
    ]
    return found


def check_category(name: str, categories: Categories) -> str:
    """Return the name of a category. Raises ConfigError with the known names for another one."""
    if name in categories.descriptions:
        return name
    near = nearest(name, categories.names)
    known = ", ".join(map(repr, categories.names)) or "none"
    raise ConfigError(f"no label has the category {name!r}; {f'did you mean {near!r}?' if near else f'known: {known}'}")


def category_rates(
    labels: Sequence[Label], categories: Categories, clusters: Mapping[AnswerName, int]
) -> list[CategoryRate]:
    """Return the share of answers in each category, the largest first, from the current labels of one criterion.

    Drawn answers count with 1 / their probability, within the strata that they were drawn from; an answer is in each
    category that one of its labels has. A category that only labels of other criteria have is left out. `clusters` has
    the number of the case or session of each answer.
    """
    counted = [label for label in labels if not label.golden and not label.is_skip]
    weights = label_weights(label for label in labels if not label.golden)
    if weights:
        counted = [label for label in counted if label.draw is not None]
    found: defaultdict[AnswerName, set[str]] = defaultdict(set)
    strata: dict[AnswerName, str] = {}
    for label in counted:
        answer = (label.slot, label.answer_seq)
        strata[answer] = "" if label.draw is None else label.draw.stratum
        name = categories.by_label.get(-1 if label.seq is None else label.seq)
        found[answer] |= set() if name is None else {name}
    answers = _Answers(found, strata, {name: weights.get(name, 1.0) for name in found}, clusters)
    here, elsewhere = set().union(*found.values()), set(categories.by_label.values())
    rates = [
        CategoryRate(
            name=name,
            description=categories.descriptions[name],
            answers=sum(name in each for each in found.values()),
            labelled=len(found),
            rate=answers.rate(name)[0],
            interval=answers.rate(name)[1],
            is_picked=not weights,
        )
        for name in categories.names
        if found and (name in here or name not in elsewhere)
    ]
    return sorted(rates, key=lambda each: (-each.rate, each.name))


class _Answers(Struct, frozen=True):
    """Labelled answers: their categories, strata, weights and clusters."""

    found: Mapping[AnswerName, set[str]]
    strata: Mapping[AnswerName, str]
    weights: Mapping[AnswerName, float]
    clusters: Mapping[AnswerName, int]

    def rate(self, category: str) -> tuple[float, Interval | None]:
        """Return the share of answers in a category, and its interval."""
        by_stratum: defaultdict[str, list[tuple[int, float, bool]]] = defaultdict(list)
        for number, (name, each) in enumerate(self.found.items()):
            cluster = self.clusters.get(name, -number)
            by_stratum[self.strata[name]].append((cluster, self.weights[name], category in each))
        total = math.fsum(self.weights.values())
        strata = [
            weighted_stratum(math.fsum(weight for _, weight, _ in each) / total, each) for each in by_stratum.values()
        ]
        cases = {self.clusters.get(name, -number) for number, name in enumerate(self.found)}
        has_interval = len(cases) >= MIN_LABELS_FOR_INTERVAL
        return stratified_rate(strata), stratified_interval(strata, len(cases)) if has_interval else None
