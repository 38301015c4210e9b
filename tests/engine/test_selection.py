import tracemalloc
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import repeat

import pytest

from agentv.engine.planning.selection import parse_expression, select_cases
from agentv.types.cases import BrokenCase, EvalCase, EvalSuite, ListedCases, Location, listed_cases
from agentv.types.errors import ConfigError, UnknownNameError
from agentv.types.run_options import RunOptions, make_options


def case(name: str, *tags: str) -> EvalCase:
    return EvalCase(name, "?", tags=tags)


SUITE = EvalSuite(
    "s.yaml",
    listed_cases([case("refund-1", "money"), case("refund-2", "slow"), case("order-1", "money", "slow")]),
    dataset="returns",
    tags=("smoke",),
)


def chosen(**options: object) -> list[str]:
    return [case.id for case in select_cases(SUITE, make_options(options))]


@pytest.mark.parametrize(
    ("options", "ids"),
    [
        ({}, ["refund-1", "refund-2", "order-1"]),
        ({"case_globs": ["refund-*"]}, ["refund-1", "refund-2"]),
        ({"case_globs": ["*-1"], "tags": ["slow"]}, ["order-1"]),
        ({"tags": ["smoke"]}, ["refund-1", "refund-2", "order-1"]),
        ({"expression": "refund and not slow"}, ["refund-1"]),
        ({"expression": "(order or refund-2) and slow"}, ["refund-2", "order-1"]),
        ({"expression": "RETURNS"}, ["refund-1", "refund-2", "order-1"]),
        ({"case_globs": ["nothing"]}, []),
        ({"limit": 2}, ["refund-1", "refund-2"]),
        ({"limit": 1, "tags": ["slow"]}, ["refund-2"]),
        ({"limit": 9}, ["refund-1", "refund-2", "order-1"]),
    ],
)
def test_the_options_choose_the_cases(options: dict[str, object], ids: list[str]) -> None:
    assert chosen(**options) == ids


def test_an_id_that_looks_like_a_pattern_means_itself() -> None:
    suite = EvalSuite("s.yaml", listed_cases([case("a[1]"), case("a1"), case("b")]))
    assert [case.id for case in select_cases(suite, make_options({"case_globs": ["a[1]"]}))] == ["a[1]", "a1"]


def test_a_sample_is_the_same_for_the_same_seed_and_keeps_the_order() -> None:
    many = EvalSuite("m.yaml", listed_cases([case(f"c{n:03}") for n in range(200)]))
    first, again, other = (
        [item.id for item in select_cases(many, RunOptions(sample=20, seed=seed))] for seed in (1, 1, 2)
    )
    assert first == again == sorted(first)
    assert first != other
    assert len(first) == 20


def test_what_a_filter_chose_of_a_long_stream_costs_ten_bytes_a_case() -> None:
    count = 100_000

    @dataclass(frozen=True)
    class Stream:
        count: None = None

        def __iter__(self) -> Iterator[EvalCase]:
            return repeat(case("a", "slow"), count)

    tracemalloc.start()
    try:
        chosen = select_cases(EvalSuite("s.jsonl", Stream()), RunOptions(tags=("slow",)))
        grown, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert chosen.count == count
    assert grown / count < 10


def test_nothing_is_read_behind_the_last_case_that_was_chosen() -> None:
    read: list[str] = []

    @dataclass(frozen=True)
    class Stream:
        count: None = None

        def __iter__(self) -> Iterator[EvalCase]:
            for name in "abc":
                read.append(name)
                yield case(name)

    chosen = select_cases(EvalSuite("s.jsonl", Stream()), RunOptions(case_globs=("a",)))
    read.clear()
    assert [each.id for each in chosen] == read == ["a"]


def test_a_line_that_cannot_be_read_is_never_filtered_away() -> None:
    broken = BrokenCase("line-2", (), Location("d.jsonl", 2))
    suite = EvalSuite("d.jsonl", ListedCases((case("a"), broken)))
    assert list(select_cases(suite, RunOptions(case_globs=("zzz",)))) == [broken]


@pytest.mark.parametrize("text", ["", "and", "a and", "(a", "a)", "not", "a b"])
def test_an_expression_that_cannot_be_read_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="cannot parse -k"):
        parse_expression(text)


def test_a_misspelt_option_is_refused_with_the_right_one() -> None:
    with pytest.raises(UnknownNameError, match="Did you mean 'workers'"):
        make_options({"worker": 3})
