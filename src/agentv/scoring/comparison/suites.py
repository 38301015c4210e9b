"""The pairing of suites of two runs by their paths, which are relative to a folder that may have changed."""

from collections.abc import Iterable, Iterator, Mapping, Sequence


def pair_suites(before: Iterable[str], after: Iterable[str]) -> dict[str, str]:
    """Return the later path of each suite that is in both runs, by its earlier path.

    Equal paths are the same suite. Of the other paths, two are the same suite if one is the end of the other, as
    `refunds.yaml` and `evals/refunds.yaml`, and no third path fits: a suite is named relative to the folder of its
    project, which `git init` changes.
    """
    old, new = dict.fromkeys(before), dict.fromkeys(after)
    others_before, others_after = ([path for path in old if path not in new], [path for path in new if path not in old])
    later, earlier = _fitting(others_before, others_after), _fitting(others_after, others_before)
    return {
        path: path if path in new else later[path][0]
        for path in old
        if path in new or (len(later[path]) == 1 and len(earlier[later[path][0]]) == 1)
    }


def counterparts(before: Sequence[str], after: Sequence[str]) -> dict[str, str]:
    """Return the later path of each suite that is in both runs, by its earlier path; single suites are paired."""
    return {before[0]: after[0]} if len(before) == len(after) == 1 else pair_suites(before, after)


def renamed_suites(before: Iterable[str], after: Iterable[str]) -> dict[str, str]:
    """Return the suites of `pair_suites` whose paths differ."""
    return {old: new for old, new in pair_suites(before, after).items() if old != new}


def _fitting(paths: Sequence[str], others: Sequence[str]) -> Mapping[str, Sequence[str]]:
    """Return for each path the other paths that it is the end of, or that are the end of it."""
    longer: dict[str, list[str]] = {}
    for other in others:
        for end in _ends(other):
            longer.setdefault(end, []).append(other)
    known = set(others)
    return {path: [*longer.get(path, ()), *(end for end in _ends(path) if end in known)] for path in paths}


def _ends(path: str) -> Iterator[str]:
    """Yield `b/c` and `c` of the path `a/b/c`."""
    parts = path.split("/")
    return ("/".join(parts[start:]) for start in range(1, len(parts)))


def renamed_text(renamed: Mapping[str, str]) -> str:
    """Return `refunds.yaml is now evals/refunds.yaml`, with the number of further suites; "" for none."""
    if not renamed:
        return ""
    (old, new), *more = renamed.items()
    return f"{old} is now {new}" + (f", and {len(more):,} more" if more else "")
