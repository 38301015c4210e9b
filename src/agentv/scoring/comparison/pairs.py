"""The pairing of two sides: the same case in both, as a pair of indexes, so that millions of pairs fit into memory."""

from array import array
from collections.abc import Iterable, Sequence
from typing import overload

from msgspec import Struct

from agentv.scoring.comparison.sides import Side
from agentv.scoring.comparison.suites import counterparts
from agentv.types.results import CaseName


class Pair(Struct, frozen=True):
    """The same case in both runs."""

    before: CaseName
    after: CaseName


class Pairs(Sequence[Pair]):
    """The pairs of two sides by the indexes of their cases; a Pair is made when it is read."""

    def __init__(self, before: Side, after: Side, first: "array[int]", second: "array[int]") -> None:
        self.before = before
        self.after = after
        self.first = first
        self.second = second

    def __len__(self) -> int:
        """Return the number of pairs."""
        return len(self.first)

    @overload
    def __getitem__(self, index: int) -> Pair: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Pair]: ...

    def __getitem__(self, index: int | slice) -> Pair | Sequence[Pair]:
        """Return a pair, or some of them."""
        if isinstance(index, slice):
            return Pairs(self.before, self.after, self.first[index], self.second[index])
        return Pair(self.before.name_at(self.first[index]), self.after.name_at(self.second[index]))

    def select(self, places: Iterable[int]) -> "Pairs":
        """Return the pairs at these places, in this order."""
        chosen = array("I", places)
        first, second = (array("I", (indexes[place] for place in chosen)) for indexes in (self.first, self.second))
        return Pairs(self.before, self.after, first, second)

    def case_numbers(self) -> Sequence[int]:
        """Return a number for each pair, which all targets and prompts of a case share."""
        if len(self.before.targets) == 1 and len(self.before.prompts) == 1:
            return range(len(self))
        known: dict[tuple[str, str], int] = {}
        names = (self.before.name_at(index) for index in self.first)
        return array("I", (known.setdefault((name.suite, name.eval_id), len(known)) for name in names))


class Alignment(Struct, frozen=True):
    """The paired cases of two runs, in the order of the earlier run, and the cases that only one of the runs has."""

    pairs: Pairs
    only_before: tuple[CaseName, ...] = ()
    only_after: tuple[CaseName, ...] = ()


def no_pairs(before: Side, after: Side) -> Pairs:
    """Return the pairs of independent samples: none."""
    return Pairs(before, after, array("I"), array("I"))


def counterpart_suites(before: Side, after: Side) -> dict[str, str]:
    """Return the later name of each suite that both runs have, by its earlier name; single suites are paired."""
    return counterparts(before.suites, after.suites)


def align(before: Side, after: Side) -> Alignment:
    """Pair cases by suite, id, target and prompt.

    If each run has a single target, its name may differ; the same holds for a single prompt. For suites see
    `counterpart_suites`.
    """
    suites = counterpart_suites(before, after)
    target = after.targets[0] if len(before.targets) == len(after.targets) == 1 else None
    has_one_prompt = len(before.prompts) == len(after.prompts) == 1
    pairs, is_paired = no_pairs(before, after), bytearray(after.case_count)
    only_before = []
    for index, name in enumerate(before.names()):
        prompt = after.prompts[0] if has_one_prompt else name.prompt
        counterpart = after.index_of(
            CaseName(
                suites.get(name.suite, name.suite),
                name.eval_id,
                name.target if target is None else target,
                prompt,
            )
        )
        if counterpart is None:
            only_before.append(name)
        else:
            pairs.first.append(index)
            pairs.second.append(counterpart)
            is_paired[counterpart] = True
    only_after = (after.name_at(index) for index, paired in enumerate(is_paired) if not paired)
    return Alignment(pairs, tuple(only_before), tuple(only_after))
