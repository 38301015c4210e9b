"""Human feedback on answers: as given, and as a line of labels.jsonl."""

from datetime import datetime
from typing import Annotated, Literal, TypeAlias

from msgspec import Meta, Struct, field

from agentv.types.cases import Location
from agentv.types.records.answer import AnswerRef, ResultKey
from agentv.types.stored import LABEL_SCHEMA, always

HumanScore: TypeAlias = str | bool | int | float
"""A score as a person gives it, on the criterion's own scale: 4, "4/5", "85%", true, "good"."""

HumanVerdict: TypeAlias = Literal["pass", "fail", "unsure"]
"""A person's verdict on an answer; `unsure` counts as a skip."""

ShownPart: TypeAlias = Literal["judge", "target", "labels", "expected"]
"""What a person saw beside an answer: the judge's verdict, the target's name, the labels of other people, or what the
case expects."""

NO_SCORE = ""
"""The score of a label without one: a skipped answer, or one that a person was unsure about."""

OVERALL = "overall"
"""The criterion of a verdict on an answer as a whole, which is compared with the verdict of its row."""

Probability: TypeAlias = Annotated[float, Meta(gt=0, le=1)]
"""A probability above 0."""


class Draw(Struct, frozen=True, omit_defaults=True):
    """How a labelled answer was drawn. It never changes, whatever is drawn later."""

    queue: str
    """The name of the queue, or of the file, that the answer was drawn for."""
    seed: int
    stratum: str
    """The name of the group of answers that it was drawn from."""
    p: Probability
    """The probability with which each answer of the stratum was drawn, n / N."""
    n: Annotated[int, Meta(ge=1)]
    """The number of answers that were drawn from the stratum."""
    size: Annotated[int, Meta(ge=1)] = field(name="N")
    """The number of answers in the stratum that could be drawn."""


class ComparedAnswer(Struct, frozen=True):
    """An answer of another run, with which the labelled answer was compared."""

    run_id: str
    slot: ResultKey
    answer_key: str
    answer_ref: AnswerRef


class Label(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One annotator's score or verdict, by one criterion, on the answer in `slot`."""

    schema: str = always(LABEL_SCHEMA)
    run_id: str = always("")
    seq: int | None = None
    """The number of the label's line; None before it is written."""
    slot: ResultKey
    answer_key: str
    """Identifies the labelled answer, as does `answer_ref`: a row that is run again gets another answer."""
    answer_ref: AnswerRef
    criterion: str
    score: HumanScore
    """`NO_SCORE` for a skipped answer."""
    annotator: str
    time: datetime
    reasoning: str | None = None
    label_id: str | None = None
    """Identifies the label: one that is sent again with the same id is stored once."""
    verdict: HumanVerdict | None = None
    note: str | None = None
    """What the annotator wrote about the answer."""
    category: str | None = None
    """The kind of failure."""
    seconds: Annotated[float, Meta(ge=0)] | None = None
    """The time that the annotator took."""
    blind: bool | None = None
    """True if the annotator saw neither judge nor target nor labels of others; None if it is not known."""
    shown: tuple[ShownPart, ...] = ()
    """What the annotator saw beside the answer."""
    draw: Draw | None = None
    """How the answer was drawn; None if it was picked."""
    golden: bool = False
    """True for an answer with a known verdict, which shows whether an annotator drifts; it counts in no rate."""
    resolution: bool = False
    """True for a verdict that settles a disagreement: it counts in place of the other labels of the answer."""
    compared_with: ComparedAnswer | None = None
    """The answer that this one was compared with: the score is 1 if this one is better, 0 if it is worse, 0.5 if both
    are equally good."""

    @property
    def is_skip(self) -> bool:
        """True if it says nothing about the answer: it has no score, or the annotator was unsure."""
        return self.score == NO_SCORE or self.verdict == "unsure"

    @property
    def answer_seq(self) -> int:
        """The `seq` of the answer that was judged."""
        return self.answer_ref.seq


class Feedback(Struct, frozen=True):
    """One annotator's feedback on one criterion of an answer.

    Suite, target, trial and prompt identify the answer; None matches any.
    """

    eval_id: str
    criterion: str
    score: HumanScore
    annotator: str = ""
    """Empty for unsigned feedback."""
    reasoning: str | None = None
    time: datetime | None = None
    suite: str | None = None
    target: str | None = None
    trial: int | None = None
    prompt: str | None = None
    run_id: str | None = None
    """The run of the answer, if the feedback names it."""
    answer_key: str | None = None
    """The answer that was labelled, if the feedback names it."""
    label_id: str | None = None
    verdict: HumanVerdict | None = None
    note: str | None = None
    category: str | None = None
    seconds: float | None = None
    blind: bool | None = None
    shown: tuple[ShownPart, ...] = ()
    draw: Draw | None = None
    golden: bool = False
    resolution: bool = False
    location: Location = field(default_factory=lambda: Location(""))
    """The line that the feedback was read from."""

    @property
    def is_skip(self) -> bool:
        """True if it says nothing about the answer."""
        return self.score == NO_SCORE or self.verdict == "unsure"

    @property
    def place(self) -> str:
        """The line that the feedback was read from, as `file:line`."""
        return f"{self.location.path}:{self.location.line}"

    def is_about(self, slot: ResultKey) -> bool:
        """Return True if the feedback is on the answer in `slot`: case and every other given field are the same."""
        pairs = (
            *((self.suite, slot.suite), (self.target, slot.target)),
            *((self.trial, slot.trial), (self.prompt, slot.prompt)),
        )
        return self.eval_id == slot.eval_id and all(wanted is None or wanted == found for wanted, found in pairs)
