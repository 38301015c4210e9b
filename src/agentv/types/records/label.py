"""Human feedback on answers: as given, and as a line of labels.jsonl."""

from datetime import datetime
from typing import TypeAlias

from msgspec import Struct, field

from agentv.types.cases import Location
from agentv.types.records.answer import AnswerRef, ResultKey
from agentv.types.stored import LABEL_SCHEMA, always

HumanScore: TypeAlias = str | bool | int | float
"""A score as a person gives it, on the criterion's own scale: 4, "4/5", "85%", true, "good"."""


class Label(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One annotator's score of one criterion of the answer in `slot`."""

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
    annotator: str
    time: datetime
    reasoning: str | None = None

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
    location: Location = field(default_factory=lambda: Location(""))
    """The line that the feedback was read from."""

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
