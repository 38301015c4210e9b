"""Failure categories: changes that keep the history, and shares that respect how answers were drawn."""

from datetime import UTC, datetime, timedelta

import pytest

from agentv.scoring.judges.categories import Categories, category_rates, check_category, make_categories
from agentv.types.errors import ConfigError
from agentv.types.records.answer import AnswerRef, ResultKey
from agentv.types.records.category import CategoryChange, CategoryEvent
from agentv.types.records.label import Draw, Label

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def label(seq: int, category: str | None = None, draw: Draw | None = None) -> Label:
    return Label(
        seq=seq,
        slot=ResultKey("a.yaml", f"c-{seq}", "agent"),
        answer_key="k",
        answer_ref=AnswerRef(seq),
        criterion="helpful",
        score=category is None,
        annotator="anna",
        time=NOON + timedelta(seconds=seq),
        category=category,
        draw=draw,
    )


def event(
    type_: CategoryChange, name: str, *names: str, labels: tuple[int, ...] = (), about: str = ""
) -> CategoryEvent:
    return CategoryEvent(time=NOON, type=type_, name=name, names=names, labels=labels, description=about or None)


def test_labels_have_the_categories_that_people_gave_them() -> None:
    found = make_categories([label(0, "tone"), label(1), label(2, "facts")], [])
    assert (found.names, found.by_label) == (["tone", "facts"], {0: "tone", 2: "facts"})


def test_renamed_and_merged_names_stand_for_their_successor() -> None:
    labels = [label(0, "tone"), label(1, "rude"), label(2, "facts")]
    changes = [
        event("renamed", "style", "tone", about="how it is said"),
        event("merged", "manners", "style", "rude"),
        event("assigned", "facts", labels=(1,)),
    ]
    found = make_categories([*labels, label(3, "tone")], changes)
    assert found.by_label == {0: "manners", 1: "facts", 2: "facts", 3: "manners"}
    assert found.descriptions == {"manners": "how it is said", "facts": ""}
    again = make_categories(labels, [*changes, event("added", "tone", about="new")])
    assert (again.by_label[0], again.descriptions["tone"]) == ("tone", "new")
    back = make_categories([label(0, "a")], [event("renamed", "b", "a"), event("renamed", "a", "b")])
    assert back.by_label == {0: "a"}
    none = make_categories([label(0, "a")], [event("assigned", "", labels=(0,))])
    assert none.by_label == {}


def test_an_unknown_category_is_refused_with_the_known_ones() -> None:
    found = Categories({"tone": "", "facts": ""})
    assert check_category("tone", found) == "tone"
    with pytest.raises(ConfigError, match="no label has the category 'fact'; did you mean 'facts'"):
        check_category("fact", found)
    with pytest.raises(ConfigError, match="known: none"):
        check_category("fact", Categories())


def test_shares_weight_answers_by_how_they_were_drawn() -> None:
    """Ten of 20 fails and ten of 180 passes are labelled; half of each have the category."""
    fails, passes = Draw("q", 1, "fail", 0.5, 10, 20), Draw("q", 1, "pass", 10 / 180, 10, 180)
    labels = [label(number, "tone" if number < 8 else None, fails) for number in range(10)]
    labels += [label(number, "tone" if number < 11 else None, passes) for number in range(10, 20)]
    (rate,) = category_rates(labels, make_categories(labels, []), {})
    assert (rate.name, rate.answers, rate.labelled, rate.is_picked) == ("tone", 9, 20, False)
    assert rate.rate == pytest.approx((20 * 0.8 + 180 * 0.1) / 200)
    assert rate.interval is not None
    assert rate.interval.low < rate.rate < rate.interval.high
    (picked,) = category_rates([label(0, "tone"), label(1)], make_categories([label(0, "tone")], []), {})
    assert (picked.rate, picked.interval, picked.is_picked) == (0.5, None, True)
    assert category_rates([], Categories(), {}) == []
