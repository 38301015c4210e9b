"""A model API that also takes batches: requests are handed in, looked after, and fetched (`batch_api`)."""

from collections.abc import Mapping

from msgspec.structs import replace

from agentv.providers.batch_endpoint import LOST, MAX_RESULTS_BYTES, BatchEndpoint, Outcome, request_names
from agentv.providers.credentials import Credentials
from agentv.providers.dialogue import Dialogue, parse_reply
from agentv.providers.http import HttpReply, HttpRequest, status_failure
from agentv.providers.model_provider import ModelProvider, to_message, to_response
from agentv.providers.request_json import joined_headers
from agentv.providers.transport import send, utc_now
from agentv.types.errors import ProviderError
from agentv.types.failures import Failure
from agentv.types.protocols import ProviderTools
from agentv.types.provider import BatchState, BatchTicket, ProviderRequest, ProviderResponse
from agentv.types.targets import ResolvedTarget


class BatchedModelProvider(ModelProvider):
    """Asks one by one, or hands in a batch. In a batch the model has one turn: tools that it calls get no answer."""

    def __init__(
        self,
        target: ResolvedTarget,
        tools: ProviderTools,
        *,
        dialogue: Dialogue,
        credentials: Credentials,
        batches: BatchEndpoint,
    ) -> None:
        super().__init__(target, tools, dialogue=dialogue, credentials=credentials)
        self._batches = batches

    @property
    def uses_batch_api(self) -> bool:
        """Whether this target is configured to be asked in batches."""
        return self._settings.batch_api

    async def submit_batch(self, requests: Mapping[str, ProviderRequest]) -> BatchTicket:
        """Hand in requests, each under a key of ours, and return at once. Raises ProviderError when it is refused."""
        keys = tuple(requests)
        names = request_names(keys)
        bodies = {names[key]: self._dialogue.build_body(self._open(request)) for key, request in requests.items()}
        return BatchTicket(await self._batches.submit(bodies, self._send), keys)

    async def poll_batch(self, ticket: BatchTicket) -> BatchState:
        """Tell how far a batch is. Raises ProviderError when it failed as a whole or is not there any more."""
        return await self._batches.poll(ticket.id, self._send)

    async def fetch_batch(self, ticket: BatchTicket) -> Mapping[str, ProviderResponse | Failure]:
        """Return what became of every request of a batch that is over, by key; none is missing."""
        outcomes = await self._batches.fetch(ticket.id, self._send)
        return {key: self._answer(outcomes.get(name, LOST)) for key, name in request_names(ticket.keys).items()}

    def _answer(self, outcome: Outcome) -> ProviderResponse | Failure:
        if isinstance(outcome, Failure):
            return outcome
        failure = status_failure(outcome, now=utc_now())
        if failure is not None:
            return failure
        try:
            turn = parse_reply(self._dialogue, outcome)
        except ProviderError as error:
            return error.failure
        return to_response(turn, [to_message(turn)], turn.usage)

    async def _send(self, request: HttpRequest) -> HttpReply:
        """Send a request with what proves who asks; the deadline is that of one call."""
        auth = await self._credentials.headers(timeout_s=self._target.try_timeout_s)
        headers = joined_headers(request.headers, auth, self._settings.extra_headers)
        return await send(
            replace(request, headers=headers),
            self._shared,
            timeout_s=self._target.try_timeout_s,
            max_bytes=MAX_RESULTS_BYTES,
        )
