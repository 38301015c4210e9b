"""A row with all that is kept of it, for whoever shows one closely."""

from collections.abc import Sequence

from agentv.types.dataclass import dataclass
from agentv.types.feedback import Label
from agentv.types.results import Answer, CaseRecord, CaseResult


@dataclass(frozen=True, slots=True)
class RowDetail:
    """A row with its case, its answer and what people said of it, as far as they are kept."""

    result: CaseResult
    case: CaseRecord | None = None
    answer: Answer | None = None
    labels: Sequence[Label] = ()
