"""`a2a`: an agent behind the Agent2Agent protocol, one message for each user turn of a case."""

import asyncio
from importlib.util import find_spec
from typing import TYPE_CHECKING, cast

from msgspec.structs import replace

from agentv.execution.cancelled_calls import attach_call
from agentv.execution.processes.tree import finish
from agentv.providers.apis.dialogue import build_prompt
from agentv.providers.protocols.a2a_responses import A2aResponse
from agentv.providers.protocols.a2a_settings import A2aSettings
from agentv.types.errors import MissingExtraError
from agentv.types.failures import Failure
from agentv.types.messages import Message, TraceEvent
from agentv.types.protocols import ProviderTools
from agentv.types.provider import ProviderError, ProviderRequest, ProviderResponse
from agentv.types.targets import ResolvedTarget
from agentv.types.usage import USAGE_NOTE, total_usage

if TYPE_CHECKING:  # the SDK takes a second to import, and is an extra
    from agentv.providers.protocols.a2a_client import A2aAgent

_CONTINUING_STATES = ("completed", "input-required", "")
"""The states after which a conversation continues; a response without a task has no state."""


class Exchange:
    """The responses to the user turns of a case, in one context."""

    def __init__(self) -> None:
        self.responses: list[A2aResponse] = []
        self.notes: list[str] = []

    def open_response(self, *, context_id: str, task_id: str) -> A2aResponse:
        """Return the response to the next turn, which must have the ids of its message, if it has any."""
        self.responses.append(A2aResponse(context_id=context_id, task_id=task_id))
        return self.responses[-1]

    def response(self) -> ProviderResponse | None:
        """Return the answer to the last turn so far, with the messages of all turns; None if there is no response."""
        answers = [response.to_response() for response in self.responses if not response.is_empty]
        if not answers:
            return None
        messages: tuple[Message, ...] = sum((answer.output_messages or () for answer in answers), ())
        trace: tuple[TraceEvent, ...] = sum((answer.trace or () for answer in answers), ())
        notes = dict.fromkeys((*self.notes, *(note for answer in answers for note in answer.notes)))
        costs = [answer.cost_usd for answer in answers if answer.cost_usd is not None]
        return replace(
            answers[-1],
            output_messages=messages,
            trace=trace or None,
            usage=None if USAGE_NOTE in notes else total_usage(answer.usage for answer in answers),
            cost_usd=sum(costs) if len(costs) == len(answers) else None,
            notes=tuple(notes),
        )


class A2aProvider:
    """Sends the user turns of a case in one context, each after the agent has replied to the turn before."""

    kind = "a2a"
    keeps_deadlines = True

    def __init__(self, target: ResolvedTarget, tools: ProviderTools) -> None:  # noqa: ARG002 - the factory's signature
        if find_spec("a2a") is None:
            raise MissingExtraError("provider a2a", "a2a")
        self._target = target
        self._settings = cast(A2aSettings, target.settings)
        self._agent: A2aAgent | None = None

    async def invoke(self, request: ProviderRequest) -> ProviderResponse:
        """Return the agent's response to the last user turn.

        Raises ProviderError, with the agent's text so far in `partial`, if a task ends in a state other than
        `answer_states`. At the deadline, and when the call is cancelled, a task in progress is cancelled.
        """
        from agentv.providers.protocols.a2a_client import failure_of  # noqa: PLC0415 - imports the SDK

        timeout_s = request.timeout_s or self._target.try_timeout_s
        agent, exchange = self._open(), Exchange()
        try:
            async with asyncio.timeout(timeout_s):
                await self._converse(agent, request, exchange)
        except TimeoutError:
            cancelled = await agent.cancel(exchange.responses[-1]) if exchange.responses else ""
            failure = Failure("target_timeout", f"no answer from the agent within {timeout_s:g} s{cancelled}")
        except asyncio.CancelledError as error:
            if exchange.responses:
                await finish(_cancel_silently(agent, exchange.responses[-1]))
            attach_call(error, exchange.response())
            raise
        except Exception as error:  # noqa: BLE001 - whatever the SDK or the agent raised is a failure of the call
            failure = failure_of(error)
        else:
            response = exchange.response()
            if response is not None:
                return response
            failure = Failure("unexpected_shape", "the agent replied with neither a message nor a task")
        raise ProviderError(failure, partial=exchange.response())

    async def healthcheck(self) -> None:
        """Read the agent's card. Raises ProviderError of kind `healthcheck`."""
        from agentv.providers.protocols.a2a_client import failure_of  # noqa: PLC0415 - imports the SDK

        try:
            async with asyncio.timeout(self._target.try_timeout_s):
                await self._open().connect()
        except TimeoutError:
            why = f"no agent card within {self._target.try_timeout_s:g} s"
        except Exception as error:  # noqa: BLE001 - whatever the SDK or the agent raised
            why = failure_of(error).message
        else:
            return
        message = f"the healthcheck of target {self._target.name!r} failed: {why}"
        raise ProviderError(Failure("healthcheck", message, stage="healthcheck"))

    async def aclose(self) -> None:
        """Close the connections."""
        if self._agent is not None:
            await self._agent.aclose()

    def _open(self) -> "A2aAgent":
        if self._agent is None:
            from agentv.providers.protocols.a2a_client import A2aAgent  # noqa: PLC0415 - imports the SDK

            self._agent = A2aAgent(self._settings)
        return self._agent

    async def _converse(self, agent: "A2aAgent", request: ProviderRequest, exchange: Exchange) -> None:
        from agentv.providers.protocols.a2a_client import make_message  # noqa: PLC0415 - imports the SDK

        prompt = build_prompt(request)
        turns = [turn.content for turn in prompt.turns if turn.role == "user"]
        if not turns:
            raise ProviderError(
                Failure("bad_request", "the case has no user turn, and only user turns are sent to an A2A agent")
            )
        if any(turn.role == "assistant" for turn in prompt.turns):
            exchange.notes.append("the assistant turns of the case were not sent: the agent replied to each user turn")
        context_id = task_id = ""
        for index, turn in enumerate(turns):
            is_last = index == len(turns) - 1
            texts = [prompt.system, turn] if prompt.system and index == 0 else [turn]
            files = request.input_files if is_last else ()
            response = exchange.open_response(context_id=context_id, task_id=task_id)
            await agent.send(make_message(texts, files, context_id=context_id, task_id=task_id), response)
            context_id = response.context_id
            task_id = response.task_id if response.state == "input-required" else ""
            allowed = ("", *self._settings.answer_states) if is_last else _CONTINUING_STATES
            if response.state not in allowed:
                raise ProviderError(_ended(response))


async def _cancel_silently(agent: "A2aAgent", response: A2aResponse) -> None:
    """Cancel a task and ignore the result, because the call that would report it is itself cancelled."""
    await agent.cancel(response)


def _ended(response: A2aResponse) -> Failure:
    text = response.status_text()
    message = f"the agent's task ended in the state {response.state!r}{f': {text}' if text else ''}"
    return Failure("target_exit", message, details={"state": response.state, "task": response.task_id})
