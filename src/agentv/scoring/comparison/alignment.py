"""Pairing of the cases of two runs."""

from collections.abc import Callable

from msgspec import Struct

from agentv.scoring.comparison.sides import CaseName, Side


class Pair(Struct, frozen=True):
    """The same case in both runs."""

    before: CaseName
    after: CaseName


class Alignment(Struct, frozen=True):
    """The paired cases of two runs, and those that only one of them has, each in the order of its run."""

    pairs: tuple[Pair, ...]
    only_before: tuple[CaseName, ...]
    only_after: tuple[CaseName, ...]


def align(before: Side, after: Side) -> Alignment:
    """Pair cases by suite, id, target and prompt.

    If each run has a single target, the two are paired even when their names differ; the same holds for a single
    prompt, and for a single suite, so that a file may be renamed.
    """
    name = _counterpart(before, after)
    known = {name(each): each for each in after.cases}
    pairs = tuple(Pair(each, known[name(each)]) for each in before.cases if name(each) in known)
    paired = {name(pair.before) for pair in pairs}
    return Alignment(
        pairs,
        tuple(each for each in before.cases if name(each) not in paired),
        tuple(each for each in after.cases if name(each) not in paired),
    )


def _counterpart(before: Side, after: Side) -> Callable[[CaseName], CaseName]:
    """Return a function from a case to its pairing key, which ignores what each run has only one of."""
    one_target = len(before.targets) == len(after.targets) == 1
    one_prompt = len(before.prompts) == len(after.prompts) == 1
    one_suite = len(before.suites) == len(after.suites) == 1

    def name(case: CaseName) -> CaseName:
        return CaseName(
            "" if one_suite else case.suite,
            case.eval_id,
            "" if one_target else case.target,
            None if one_prompt else case.prompt,
        )

    return name
