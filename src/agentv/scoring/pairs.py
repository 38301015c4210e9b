"""Which of two answers a judge prefers, and what a preference asked in both orders amounts to."""

from collections.abc import Iterable, Sequence
from typing import Literal, TypeAlias

from msgspec import Struct

from agentv.scoring.replies import JudgeReply, chosen_reply, reply_text
from agentv.scoring.votes import Vote, combine
from agentv.types.json_value import JsonObject

Better: TypeAlias = Literal["A", "B", "tie"]

WIN, TIE, LOSS = 1.0, 0.5, 0.0
_READ: dict[str, Better] = {"a": "A", "b": "B", "tie": "tie"}


class PairReply(JudgeReply, frozen=True):
    """Which answer a judge finds better, and why."""

    better: Better
    reasoning: str | None = None


def parse_pair(reply: str, *, nonce: str | None = None, shown: Iterable[str] = ()) -> PairReply | None:
    """Return the preference in a reply, or None when it holds none."""
    return chosen_reply(reply, _read, nonce=nonce, shown=shown)


def _read(found: JsonObject) -> PairReply | None:
    said = reply_text(found.get("better"))
    better = None if said is None else _READ.get(said.casefold().removeprefix("answer").strip(" _"))
    return None if better is None else PairReply(better, reply_text(found.get("reasoning")))


def candidate_value(better: Better, *, swapped: bool) -> float:
    """Return what a preference means for the candidate, which is A, or B when the order was swapped."""
    if better == "tie":
        return TIE
    return WIN if (better == "B") is swapped else LOSS


class BothOrders(Struct, frozen=True):
    """One judge's preferences for the same two answers: as given, and with their places swapped."""

    first: PairReply
    swapped: PairReply

    @property
    def values(self) -> tuple[float, float]:
        """What each of them means for the candidate."""
        first = candidate_value(self.first.better, swapped=False)
        return first, candidate_value(self.swapped.better, swapped=True)

    @property
    def is_biased(self) -> bool:
        """Whether the verdict changed with the order."""
        return self.values[0] != self.values[1]

    @property
    def value(self) -> float:
        """1.0 for a win of the candidate, 0.5 for a tie, 0.0 for a loss; what changes with the order is a tie."""
        return TIE if self.is_biased else self.values[0]


def pair_score(judged: Sequence[BothOrders], vote: Vote = "mean") -> float:
    """Return the common value of several judgements of one pair."""
    return combine([each.value for each in judged], vote)
