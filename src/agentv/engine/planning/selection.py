"""Selection of a suite's cases: by globs on the id, tags, an expression, a sample, a shard."""

import random
import re
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from hashlib import blake2b
from itertools import islice

from msgspec import Struct

from agentv.scoring.results.applicable import tags_of
from agentv.types.cases import BrokenCase, EvalCase, EvalSuite
from agentv.types.errors import ConfigError, NothingFoundError, nearest
from agentv.types.run_options import RunOptions

_SHARD = re.compile(r"(\d{1,6})/(\d{1,6})")


class Shard(Struct, frozen=True):
    """One of several shards of about the same size."""

    number: int
    """Counted from 1."""
    count: int
    """The number of shards."""

    def includes(self, suite: str, case_id: str) -> bool:
        """Return True if a case of a suite (given by its path) belongs to this shard."""
        name = f"{suite}\0{case_id}".encode(errors="replace")
        return int.from_bytes(blake2b(name, digest_size=8).digest(), "big") % self.count == self.number - 1


def parse_shard(text: str) -> Shard:
    """Return the shard of a string such as `2/3`. Raises ConfigError."""
    found = _SHARD.fullmatch(text)
    if found is None or not 1 <= int(found[1]) <= int(found[2]):
        raise ConfigError(f"shard must be I/N with I from 1 to N, as in '2/3', not {text!r}")
    return Shard(int(found[1]), int(found[2]))


_WORD = re.compile(r"\s*(\(|\)|[^\s()]+)")

MAX_WORDS = 200
"""Words and parentheses in one `-k` expression."""


class Selection(Struct, frozen=True):
    """The selected cases of one suite."""

    suite: EvalSuite
    positions: Sequence[int] | None
    """The places of the cases in the source, in order; None selects all."""
    count: int | None
    shard: Shard | None = None
    """Filters the cases while the source is read."""
    of_all_shards: "Selection | None" = None
    """The selection of all shards together, if the cases of this one were chosen before the run."""

    def __iter__(self) -> Iterator[EvalCase | BrokenCase]:
        """Open the suite's source and yield the chosen cases in file order."""
        return self.cases()

    def cases(
        self, on_other: Callable[[EvalCase | BrokenCase], None] = lambda _case: None
    ) -> Iterator[EvalCase | BrokenCase]:
        """Open the suite's source and yield the chosen cases in file order.

        With a `shard`, `on_other` is called with each case of another shard.
        """
        if self.shard is not None:
            return self._cases_of_shard(self.shard, on_other)
        if self.positions is None:
            return iter(self.suite.cases)
        return (case for _, case in _cases_at(self.positions, self.suite))

    def _cases_of_shard(
        self, shard: Shard, on_other: Callable[[EvalCase | BrokenCase], None]
    ) -> Iterator[EvalCase | BrokenCase]:
        for case in self.suite.cases:
            if shard.includes(self.suite.path, case.id):
                yield case
            else:
                on_other(case)


def select_cases(suite: EvalSuite, options: RunOptions) -> Selection:
    """Return the cases of a suite that the options select.

    Without a filter, limit, sample or shard nothing is read. Filters select all lines that cannot be read, so that
    they are reported; a limit, sample or shard may exclude them.
    """
    shard = parse_shard(options.shard) if options.shard else None
    if not (options.case_globs or options.tags or options.expression or options.sample or options.limit):
        if shard is not None and suite.cases.count is not None:
            return _shard_selection(shard, suite, range(suite.cases.count))
        return Selection(suite, None, suite.cases.count, shard)
    wanted = _make_filter(suite, options)
    found = (position for position, case in enumerate(suite.cases) if wanted(case))
    positions = array("Q", islice(found, options.limit))
    if options.sample is not None and options.sample < len(positions):
        drawn = random.Random(options.seed).sample(positions, options.sample)  # noqa: S311 - a sample, no secret
        positions = array("Q", sorted(drawn))
    return Selection(suite, positions, len(positions)) if shard is None else _shard_selection(shard, suite, positions)


def _shard_selection(shard: Shard, suite: EvalSuite, positions: Sequence[int]) -> Selection:
    """Return the selection of a shard's cases among those at `positions`."""
    in_shard = array(
        "Q", (position for position, case in _cases_at(positions, suite) if shard.includes(suite.path, case.id))
    )
    return Selection(suite, in_shard, len(in_shard), of_all_shards=Selection(suite, positions, len(positions)))


def _cases_at(positions: Sequence[int], suite: EvalSuite) -> Iterator[tuple[int, EvalCase | BrokenCase]]:
    """Yield the cases at `positions`, which are sorted, each with its position; nothing is read after the last."""
    wanted = iter(positions)
    next_position = next(wanted, None)
    if next_position is None:
        return
    for position, case in enumerate(suite.cases):
        if position == next_position:
            yield position, case
            next_position = next(wanted, None)
            if next_position is None:
                return


def _make_filter(suite: EvalSuite, options: RunOptions) -> Callable[[EvalCase | BrokenCase], bool]:
    expression = parse_expression(options.expression) if options.expression else None

    def wanted(case: EvalCase | BrokenCase) -> bool:
        if isinstance(case, BrokenCase):
            return True
        tags = set(tags_of(case, suite))
        if options.case_globs and not any(matches_glob(case.id, glob) for glob in options.case_globs):
            return False
        if options.tags and not tags.intersection(options.tags):
            return False
        return expression is None or expression(" ".join((case.id, *sorted(tags), suite.dataset)).casefold())

    return wanted


def matches_glob(case_id: str, glob: str) -> bool:
    """Return True if `--case GLOB` selects a case: its id matches the pattern, or is the same text."""
    return case_id == glob or fnmatchcase(case_id, glob)


def unmatched_globs(globs: Iterable[str], ids: Iterable[str]) -> list[str]:
    """Return the globs that match none of the ids."""
    ids = list(ids)
    return [glob for glob in globs if not any(matches_glob(each, glob) for each in ids)]


def no_case_matches(globs: Sequence[str], ids: Iterable[str]) -> str:
    """Return the message that these globs of `--case` match no id, each with the nearest one."""
    return f"no case matches --case {_alternatives(globs, ids)}"


def parse_expression(text: str) -> Callable[[str], bool]:
    """Parse `-k`: words to find in a case's id, tags or dataset, with `and`, `or`, `not`, `(…)`. Raises ConfigError."""
    words = _WORD.findall(text)
    if len(words) > MAX_WORDS:
        raise ConfigError(f"-k has {len(words)} words; at most {MAX_WORDS} are allowed")
    test, rest = _parse_or(words, text)
    if rest:
        raise ConfigError(f"cannot parse -k {text!r} at {rest[0]!r}; join words with and, or, not and parentheses")
    return test


def _parse_or(words: Sequence[str], text: str) -> tuple[Callable[[str], bool], Sequence[str]]:
    left, rest = _parse_and(words, text)
    while rest and rest[0] == "or":
        right, rest = _parse_and(rest[1:], text)
        left = _either(left, right)
    return left, rest


def _parse_and(words: Sequence[str], text: str) -> tuple[Callable[[str], bool], Sequence[str]]:
    left, rest = _parse_not(words, text)
    while rest and rest[0] == "and":
        right, rest = _parse_not(rest[1:], text)
        left = _both(left, right)
    return left, rest


def _parse_not(words: Sequence[str], text: str) -> tuple[Callable[[str], bool], Sequence[str]]:
    if not words or words[0] in ("and", "or", ")"):
        raise ConfigError(f"cannot parse -k {text!r}: a word is missing; example: 'refund and not slow'")
    if words[0] == "not":
        inner, rest = _parse_not(words[1:], text)
        return (lambda text: not inner(text)), rest
    if words[0] == "(":
        inner, rest = _parse_or(words[1:], text)
        if not rest or rest[0] != ")":
            raise ConfigError(f"cannot parse -k {text!r}: a closing parenthesis is missing")
        return inner, rest[1:]
    word = words[0].casefold()
    return (lambda text: word in text), words[1:]


def _either(left: Callable[[str], bool], right: Callable[[str], bool]) -> Callable[[str], bool]:
    return lambda text: left(text) or right(text)


def _both(left: Callable[[str], bool], right: Callable[[str], bool]) -> Callable[[str], bool]:
    return lambda text: left(text) and right(text)


def why_nothing_selected(suites: Sequence[EvalSuite], options: RunOptions) -> str:
    """Return why the options select no case of these suites: what no case has, and the nearest word that one has."""
    cases = [(case, suite) for suite in suites for case in suite.cases if isinstance(case, EvalCase)]
    loaded = f"({len(cases):,} loaded)"
    tags = {tag for case, suite in cases for tag in tags_of(case, suite)}
    if not tags.intersection(options.tags) and options.tags:
        none = "" if tags else "; no case has any tag: tags are the key or the column `tags`, not `tag`"
        return f"{_no_case_has_tag(options.tags, tags)}{none} {loaded}"
    ids = {case.id for case, _ in cases}
    if options.case_globs and len(unmatched_globs(options.case_globs, ids)) == len(options.case_globs):
        return f"{no_case_matches(options.case_globs, ids)} {loaded}"
    if options.expression:
        words = {word for text in (*ids, *tags, *(suite.dataset for suite in suites)) for word in _words_of(text)}
        wanted = [word for word in _WORD.findall(options.expression) if word not in _EXPRESSION_WORDS]
        missing = [word for word in wanted if not any(word.casefold() in each.casefold() for each in words)]
        hint = f"; no case has {_alternatives(missing, words)}" if missing else ""
        return f"no case matches {_given(options)}{hint} {loaded}"
    return f"no case matches {_given(options) or 'the selection'} {loaded}"


def refuse_unmatched(suites: Sequence[EvalSuite], options: RunOptions) -> None:
    """Raise NothingFoundError that names each `--case` and `--tag` that no case has, if others beside it select cases.

    Cases are read until each name is found. If no name is, the run itself ends with `why_nothing_selected`.
    """
    if max(len(options.case_globs), len(options.tags)) < 2:  # noqa: PLR2004 - one name selects something or nothing
        return
    globs, missing_tags = list(options.case_globs), set(options.tags)
    ids, tags = set[str](), set[str]()
    for suite, case in ((each, case) for each in suites for case in each.cases):
        ids.add(case.id)
        globs = unmatched_globs(globs, [case.id]) if globs else []
        if isinstance(case, EvalCase):
            own_tags = tags_of(case, suite)
            tags.update(own_tags)
            missing_tags.difference_update(own_tags)
        if not globs and not missing_tags:
            return
    problems = []
    if len(globs) < len(options.case_globs) and globs:
        problems.append(no_case_matches(globs, ids))
    if len(missing_tags) < len(set(options.tags)) and missing_tags:
        problems.append(_no_case_has_tag(sorted(missing_tags), tags))
    if problems:
        raise NothingFoundError(f"{'; '.join(problems)} ({len(ids):,} loaded)")


def _no_case_has_tag(wanted: Sequence[str], known: Iterable[str]) -> str:
    return f"no case has the tag {_alternatives(wanted, known)}"


_EXPRESSION_WORDS = ("and", "or", "not", "(", ")")


def _words_of(text: str) -> Sequence[str]:
    """Return a name and the words in it, as suggestions for a word of `-k`."""
    return (text, *re.findall(r"\w+", text))


def _alternatives(names: Sequence[str], known: Iterable[str]) -> str:
    """Return the names that no case has, each with the nearest known name."""
    known = sorted(known)
    return " or ".join(
        f"{name!r}" + (f", did you mean {near!r}?" if (near := nearest(name, known)) else "") for name in names
    )


def _given(options: RunOptions) -> str:
    """Return the options that select cases, as on the command line."""
    given = [f"--tag {tag!r}" for tag in options.tags] + [f"--case {glob!r}" for glob in options.case_globs]
    given += [f"-k {options.expression!r}"] if options.expression else []
    given += [f"--shard {options.shard}"] if options.shard else []
    return " and ".join(given)
