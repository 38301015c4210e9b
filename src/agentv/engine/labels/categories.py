"""Failure categories of a stored run: what its labels say after all changes, and changes."""

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime

from agentv.scoring.judges.categories import (
    Categories,
    CategoryRate,
    category_rates,
    check_category,
    make_categories,
)
from agentv.storage.run.categories import append_category_events, load_category_events
from agentv.storage.run.judgements import read_judged_rows
from agentv.storage.run.stored import StoredRun
from agentv.types.errors import ConfigError
from agentv.types.records.answer import ResultKey
from agentv.types.records.category import CategoryEvent
from agentv.types.records.label import Label


def load_categories(run: StoredRun) -> Categories:
    """Return the categories of a run's labels. Raises StorageError for a file that cannot be read."""
    return make_categories(run.all_labels(), load_category_events(run.folder))


def load_category_rates(run: StoredRun) -> dict[str, list[CategoryRate]]:
    """Return the share of answers in each category, by criterion of the labels."""
    labels = run.labels()
    if not labels:
        return {}
    categories = load_categories(run)
    names = {(label.slot, label.answer_seq) for label in labels}
    clusters = {
        name: row.cluster
        for row in read_judged_rows(run, ())
        if (name := (row.slot, -1 if row.answer_seq is None else row.answer_seq)) in names
    }
    by_criterion: defaultdict[str, list[Label]] = defaultdict(list)
    for label in labels:
        by_criterion[label.criterion].append(label)
    return {name: category_rates(each, categories, clusters) for name, each in by_criterion.items()}


def slots_in_category(run: StoredRun, name: str) -> set[ResultKey]:
    """Return the slots whose answers have a category. Raises ConfigError with the known names for another one."""
    categories = load_categories(run)
    check_category(name, categories)
    return {
        label.slot for label in run.labels() if label.seq is not None and categories.by_label.get(label.seq) == name
    }


def rename_category(run: StoredRun, old: str, new: str, *, by: str, now: datetime) -> CategoryEvent:
    """Rename a category, and store that it was. Raises ConfigError for an unknown one, or a new name that is in use."""
    categories = load_categories(run)
    check_category(old, categories)
    if new in categories.descriptions or not new.strip():
        reason = "is in use; merge the two" if new.strip() else "is empty"
        raise ConfigError(f"{old!r} cannot be renamed: the name {new!r} {reason}")
    return _save(run, CategoryEvent(time=now, by=by, type="renamed", name=new.strip(), names=(old,)))


def merge_categories(run: StoredRun, names: Sequence[str], into: str, *, by: str, now: datetime) -> CategoryEvent:
    """Merge categories into one, which may be new, and store that they were. Raises ConfigError for unknown ones."""
    categories = load_categories(run)
    for name in names:
        check_category(name, categories)
    if not into.strip():
        raise ConfigError("the name of a category must not be empty")
    return _save(run, CategoryEvent(time=now, by=by, type="merged", name=into.strip(), names=tuple(names)))


def assign_category(run: StoredRun, labels: Sequence[int], name: str, *, by: str, now: datetime) -> CategoryEvent:
    """Assign a category to labels, given by their `seq`; an empty name takes it away. Returns the stored change."""
    known = {label.seq for label in run.all_labels()}
    unknown = [seq for seq in labels if seq not in known]
    if unknown:
        raise ConfigError(f"run {run.run_id} has no label {unknown[0]}")
    return _save(run, CategoryEvent(time=now, by=by, type="assigned", name=name.strip(), labels=tuple(labels)))


def _save(run: StoredRun, event: CategoryEvent) -> CategoryEvent:
    (saved,) = append_category_events(run.folder, [event])
    return saved
