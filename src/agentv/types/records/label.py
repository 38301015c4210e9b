"""What a person said of an answer: a line of labels.jsonl."""

from datetime import datetime
from typing import TypeAlias

from msgspec import Struct

from agentv.types.records.answer import AnswerRef, Slot
from agentv.types.records.fields import LABEL_SCHEMA, always

HumanScore: TypeAlias = str | bool | int | float
"""A score as a person gives it, on the criterion's own scale: 4, "4/5", "85%", true, "good"."""


class Label(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One annotator's score of one criterion of the answer in `slot`.

    `answer_key` and `answer_ref` are those of the answer that was judged: a row that is tried again has another one.
    `seq` is the number of the label's line, None before it is written.
    """

    schema: str = always(LABEL_SCHEMA)
    run_id: str = always("")
    seq: int | None = None
    slot: Slot
    answer_key: str
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
