"""A row with all that is kept of it, for whoever shows one closely."""

from collections.abc import Sequence

from msgspec import Struct

from agentv.types.records.answer import Answer
from agentv.types.records.label import Label
from agentv.types.records.result import CaseResult
from agentv.types.records.run import CaseRecord


class RowDetail(Struct, frozen=True):
    """A row with its case, its answer and what people said of it, as far as they are kept."""

    result: CaseResult
    case: CaseRecord | None = None
    answer: Answer | None = None
    labels: Sequence[Label] = ()
