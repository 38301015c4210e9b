"""A result in words: its case, its score, and why it did not pass."""

from collections.abc import Sequence
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from agentv.reports.text.amounts import score_text, seconds_text
from agentv.reports.text.printable import one_line
from agentv.scoring.results.aggregation import is_requirement_met, required_items_met, row_state
from agentv.types.evaluation import EvaluatorResult
from agentv.types.events import RunStarted
from agentv.types.records.answer import Origin, source_of
from agentv.types.records.result import CaseResult

_MAX_REASON_CHARS = 2000
_MAX_CLEANED_CHARS = 8 * _MAX_REASON_CHARS
"""The number of characters of a text that are cleaned; to clean all of a very long text would be slow."""


def cell_text(target: str | None, prompt: str | None) -> str:
    """Return `small · short`, a target with a prompt, or the one that is given."""
    return " · ".join(filter(None, (target, prompt)))


def case_key(suite: str, eval_id: str) -> str:
    """Return the key by which a page shows and hides all that is about a case."""
    return f"{suite} {eval_id}"


class RowLabels(Struct, frozen=True):
    """The form of result labels: with suite or target if a run has several."""

    with_suite: bool = False
    trials: int = 1
    """The number of trials of each case; 1 if cases differ."""
    with_target: bool = True
    with_place: bool = False
    """True for reports whose readers cannot see the eval file by the name of the case."""

    @classmethod
    def of_run(cls, started: RunStarted) -> "RowLabels":
        """Return the label form for a run that starts."""
        return cls(with_suite=len(started.suites) > 1, trials=started.trials, with_target=len(started.targets) > 1)

    def label(self, result: CaseResult) -> str:
        """Return `refund-7`, or with everything `refund-7 (evals/refunds.yaml) · small · short trial 2 of 3`."""
        return self.case(result) + self.trial(result)

    def case(self, result: CaseResult) -> str:
        """Return the case of a result, with its suite and target if the run has several, and its prompt."""
        cell = cell_text(result.slot.target if self.with_target else None, result.prompt)
        return self.name(result) + (f" · {one_line(cell[:_MAX_CLEANED_CHARS])}" if cell else "")

    def name(self, result: CaseResult) -> str:
        """Return the id of a result's case, with its suite if the run has several, on one line."""
        suite = f" ({result.slot.suite})" if self.with_suite else ""
        return one_line(f"{result.slot.eval_id}{suite}"[:_MAX_CLEANED_CHARS])

    def trial(self, result: CaseResult) -> str:
        """Return ` trial 2 of 3`; empty for cases with one trial."""
        number = result.slot.trial + 1
        of_all = f" of {self.trials}" if 1 < self.trials >= number else ""
        return f" trial {number}{of_all}" if of_all or number > 1 else ""


PLAIN_LABELS = RowLabels()
LABELS_WITHOUT_TARGET = RowLabels(with_target=False)


def origin_text(origin: Origin) -> str:
    """Return where a row was read from, as in `traces.jsonl:12, trace 4bf92f, span 00f067`."""
    place = source_of(origin.file, origin.line, origin.part) if origin.line else origin.file
    ids = (f"{name} {each}" for name, each in (("trace", origin.trace_id), ("span", origin.span_id)) if each)
    return one_line(", ".join(filter(None, (place, *ids)))[:_MAX_CLEANED_CHARS])


def row_score(result: CaseResult) -> str:
    """Return the score of a result as text; empty for an error or a skipped case."""
    return "" if row_state(result) in ("error", "skipped") else score_text(result.score)


def is_judged(result: EvaluatorResult) -> bool:
    """Return True if an evaluator's result has a score; False if the evaluator failed or was skipped."""
    return result.error is None and result.status not in ("error", "skipped")


def row_reasons(result: CaseResult) -> Sequence[str]:
    """Return why a result did not pass, one text for each evaluator; long texts are cut."""
    return _Reason(max_chars=_MAX_REASON_CHARS).of_row(result)


def row_reason(result: CaseResult) -> str:
    """Return why a result did not pass: the error, else what its evaluators missed; cut after 2,000 characters."""
    reason = " | ".join(_Reason(max_chars=_MAX_CLEANED_CHARS).of_row(result))
    return reason if len(reason) <= _MAX_REASON_CHARS else f"{reason[:_MAX_REASON_CHARS]}…"


def whole_reason(result: CaseResult) -> str:
    """Return why a result did not pass on one line, at full length."""
    return " | ".join(_Reason(max_chars=None).of_row(result))


def broken_names(result: CaseResult) -> Sequence[str]:
    """Return the names of the evaluators that missed something; none for an error."""
    if result.error is not None:
        return ()
    found = (each for each in result.evaluator_results if not is_requirement_met(each) or _has_missed(each))
    return [one_line(each.name[:_MAX_CLEANED_CHARS]) for each in found]


def _has_missed(result: EvaluatorResult) -> bool:
    """Return True if an evaluator that counts did not give the full score, or failed."""
    if result.weight <= 0:
        return False
    return result.error is not None or (
        result.status != "skipped" and (result.score < 1 or result.verdict not in (None, "pass"))
    )


class _Reason(Struct, frozen=True):
    """Builds the reasons why a result did not pass."""

    max_chars: int | None
    """Each text is cut to this length; None does not cut."""

    def of_row(self, result: CaseResult) -> Sequence[str]:
        if result.error is not None:
            took = f" ({seconds_text(result.duration_ms / 1000)})" if result.duration_ms else ""
            message = self._line(result.error.message) or result.error.kind
            # The stage is omitted if the message starts with it, as in "evaluator 'tone': …".
            place = "" if message.startswith(f"{result.error.stage} ") else f"{result.error.stage}: "
            return [f"error {place}{message}{took}"]
        broken = [each for each in result.evaluator_results if not is_requirement_met(each)]
        others = [each for each in result.evaluator_results if is_requirement_met(each) and _has_missed(each)]
        reasons = [*map(self._broken_requirement, broken), *map(self._of_evaluator, others)]
        return reasons or [self._line(result.reasoning or "no reason was given")]

    def _of_evaluator(self, result: EvaluatorResult) -> str:
        """Return what one evaluator missed."""
        name = self._line(result.name)
        if result.error is not None:
            return f"{name}: error: {self._line(result.error.message)}"
        return f"{name}: {self._missed_text(result) or score_text(result.score)}"

    def _broken_requirement(self, result: EvaluatorResult) -> str:
        """Return which required evaluator, or which required items of its rubric, did not pass, and why."""
        unmet = [self._line(item.criterion_name) for item in result.results if not required_items_met((item,))]
        name = f"{', '.join(unmet)} of {self._line(result.name)}" if unmet else self._line(result.name)
        if result.error is not None:
            return f"required {name}: error: {self._line(result.error.message)}"
        threshold = "" if isinstance(result.required, bool) else f" where {result.required:g} is required"
        return f"required {name}: {self._missed_text(result) or score_text(result.score) + threshold}"

    def _missed_text(self, result: EvaluatorResult) -> str:
        return "; ".join(map(self._line, result.misses)) or self._line(result.reasoning or "")

    def _line(self, text: str) -> str:
        return one_line(text[: self.max_chars])


def workflow_command(name: Literal["error", "warning"], result: CaseResult, labels: RowLabels, text: str) -> str:
    """Return the command of GitHub Actions that shows a text at the file and line of a result's case."""
    title = replace(labels, with_target=True).case(result)
    place = {"file": result.file or result.slot.suite, "line": str(result.line) if result.line else "", "title": title}
    properties = ",".join(f"{key}={_property(value)}" for key, value in place.items() if value)
    return f"::{name} {properties}::{command_data(text)}"


def command_data(text: str) -> str:
    """Return a text as the data of a command of GitHub Actions, on one line."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return command_data(text).replace(":", "%3A").replace(",", "%2C")
