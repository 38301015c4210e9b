"""The suspected regressions of a run, and what their re-runs say."""

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from agentv.scoring.comparison.pairs import align
from agentv.scoring.comparison.sides import PASSED, Side
from agentv.scoring.gates.confirmed import is_confirmed, is_suspected
from agentv.scoring.gates.failing_cases import case_name
from agentv.scoring.results.aggregation import row_state
from agentv.types.records.result import CaseResult
from agentv.types.results import CaseName


class Suspect(Struct, frozen=True):
    """A case that passed in every trial of the baseline and fails now. It is called again `reruns` times."""

    name: CaseName
    reruns: int


def suspected_cases(before: Side, after: Side) -> Iterator[CaseName]:
    """Yield the cases of the later run that passed in every trial of the earlier one, and fail now."""
    for pair in align(before, after).pairs:
        old, new = before.mean(PASSED, pair.before), after.mean(PASSED, pair.after)
        if old is not None and new is not None and not before.error_count(pair.before) and is_suspected(old, new):
            yield pair.after


class Confirmations:
    """Counts the suspected regressions of a run by the outcomes of their re-runs.

    `suspects` is None until all results of the run are known. A re-run with an error is undecided; a later one takes
    its place. A re-run that was judged by other evaluators than the first answer, which was rescored since, is missing.
    """

    def __init__(self, suspects: Sequence[Suspect] | None = None) -> None:
        self.suspects = suspects
        self._judged_by: dict[CaseName, int] = {}
        self._outcomes: dict[CaseName, dict[int, tuple[int, bool | None]]] = {}

    def add(self, row: CaseResult) -> None:
        """Add a stored row: one that counts says by which evaluators its re-runs must be judged.

        The rows of one answer replace each other. Other re-runs than confirming ones are ignored.
        """
        judged_by = hash(frozenset(row.score_keys.items()))
        if row.rerun is None and row.trial == 0 and row.score_keys:
            self._judged_by[case_name(row)] = judged_by
        if row.rerun != "confirm" or row.seq is None:
            return
        state = row_state(row)
        answer = row.answer_seq if row.answer_seq is not None else -1 - row.seq
        outcomes = self._outcomes.setdefault(case_name(row), {})
        outcomes[answer] = judged_by, None if state in ("error", "skipped") else state == "pass"

    def _outcomes_of(self, name: CaseName) -> list[bool | None]:
        """Return the outcomes of the re-runs of a case that count."""
        found = self._outcomes.get(name, {}).values()
        wanted = self._judged_by.get(name)
        return [outcome for judged_by, outcome in found if outcome is None or wanted in (None, judged_by)]

    def missing(self, suspect: Suspect, *, retries_errors: bool) -> int:
        """Return how many re-runs of a suspect are to be made; with `retries_errors`, those with an error again."""
        outcomes = self._outcomes_of(suspect.name)
        made = sum(outcome is not None for outcome in outcomes) if retries_errors else len(outcomes)
        return max(0, suspect.reruns - made)

    def suspected(self, suite: str | None = None) -> int | None:
        """Return the number of suspects, of one suite if it is named; None if it is not known."""
        return None if self.suspects is None else sum(suite in (None, each.name.suite) for each in self.suspects)

    def undecided(self, suite: str | None = None) -> int:
        """Return the number of suspects that no re-run cleared, and of which one has an error or is missing."""
        return list(self._answers(suite).values()).count(None)

    def confirmed(self, suite: str | None = None) -> Mapping[CaseName, int] | None:
        """Return the suspects that failed in all of their re-runs, with that number; None if they are not known."""
        if self.suspects is None:
            return None
        answers = self._answers(suite)
        return {each.name: each.reruns for each in self.suspects if answers.get(each.name)}

    def _answers(self, suite: str | None) -> Mapping[CaseName, bool | None]:
        suspects = [each for each in self.suspects or () if suite in (None, each.name.suite)]
        return {each.name: is_confirmed(self._reruns(each), each.reruns) for each in suspects}

    def _reruns(self, suspect: Suspect) -> list[bool | None]:
        """Return the first outcomes of a suspect, at most as many as planned, errors last."""
        outcomes = self._outcomes_of(suspect.name)
        judged = [outcome for outcome in outcomes if outcome is not None]
        errors = [outcome for outcome in outcomes if outcome is None]
        return [*judged, *errors][: suspect.reruns]
