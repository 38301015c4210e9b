"""What is known of a judge's mistakes, and rates that are corrected by it."""

from datetime import datetime

from msgspec import Struct

from agentv.types.intervals import Interval


class MeasuredRate(Struct, frozen=True):
    """A share of `rows`; `worth` is how many independent rows it is as sure as, for rows of one case are alike."""

    value: float
    rows: int
    worth: float

    @property
    def variance(self) -> float:
        """The squared standard error, value * (1 - value) / worth."""
        return self.value * (1 - self.value) / self.worth


class Confusion(Struct, frozen=True):
    """Answers counted by what the judge says and what people say."""

    both_pass: int = 0
    judge_alone: int = 0
    people_alone: int = 0
    both_fail: int = 0

    @property
    def answers(self) -> int:
        """All of them."""
        return self.both_pass + self.judge_alone + self.people_alone + self.both_fail

    @property
    def people_pass(self) -> int:
        """Answers that people pass."""
        return self.both_pass + self.people_alone

    @property
    def people_fail(self) -> int:
        """Answers that people fail."""
        return self.judge_alone + self.both_fail


class Calibration(Struct, frozen=True):
    """How often a judge was right, measured on answers that people judged too.

    `setups` are the digests of the evaluator's settings, prompts and judges, as scores are keyed by: it holds for no
    other. `labelled_at` is the time of the newest label.
    """

    evaluator: str
    criterion: str
    setups: tuple[str, ...]
    run_id: str
    labelled_at: datetime
    annotators: int
    cases: int
    confusion: Confusion
    sensitivity: MeasuredRate | None
    specificity: MeasuredRate | None
    kappa: float | None = None


class CorrectedRate(Struct, frozen=True):
    """A judge's pass rate of one target's answers beside the same corrected by the judge's mistakes.

    `rate` is None, and `reason` says why, where the calibration does not allow it. `labels` is the number of labelled
    answers of the calibration.
    """

    evaluator: str
    criterion: str
    target: str
    judged: int
    raw: float
    raw_interval: Interval | None
    labels: int
    rate: float | None = None
    interval: Interval | None = None
    reason: str | None = None
