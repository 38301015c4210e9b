"""What the cache of answers knows of the questions of a batch."""

from collections.abc import Mapping
from datetime import datetime

from msgspec import Struct, field

from agentv.pipeline.answer_memory import AnswerMemory
from agentv.scoring.request_key import repeated_key
from agentv.types.failures import Failure
from agentv.types.provider import ProviderRequest, ProviderResponse


class _Place(Struct, frozen=True):
    """Where an answer is kept: the key of its request, and that of this time it is asked in the run."""

    request: str
    key: str


class BatchMemory(Struct):
    """Finds and keeps the answers to one batch's questions, each under a name of the batch's own.

    Without a cache nothing is found or kept. A question that got no answer may be asked by itself afterwards; what
    comes of that is kept in the same place.
    """

    memory: AnswerMemory | None
    _sought: dict[str, "_Place"] = field(default_factory=dict)

    async def find(self, requests: Mapping[str, ProviderRequest]) -> dict[str, ProviderResponse]:
        """Return the answers that are kept, by name."""
        found: dict[str, ProviderResponse] = {}
        if self.memory is None:
            return found
        for name, request in requests.items():
            key = await self.memory.key_of(request)
            if key is None:
                continue
            repeated = repeated_key(key, self.memory.run.times(key))
            kept = await self.memory.find(repeated)
            if kept is not None:
                found[name] = kept
            else:
                self._sought[name] = _Place(key, repeated)
        return found

    async def keep(self, answers: Mapping[str, ProviderResponse | Failure], began: datetime) -> None:
        """Keep the answers that were asked for since `began`."""
        for name, answer in answers.items():
            if self.memory is not None and name in self._sought and isinstance(answer, ProviderResponse):
                await self.memory.keep(self._sought.pop(name).key, answer, began)

    def close(self) -> None:
        """Leave the places of those that were asked for in vain to whoever asks again."""
        for place in self._sought.values():
            if self.memory is not None:
                self.memory.run.take_back(place.request)
