import asyncio
import sys
import threading
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
from msgspec import Struct
from msgspec.structs import replace
from tests.support.asking import ask, failure_of, make_request, make_target

from agentv.providers.local.python import PythonProvider, PythonSettings
from agentv.types.errors import PluginError
from agentv.types.failures import Failure
from agentv.types.messages import Message, ToolCall, TraceEvent
from agentv.types.provider import ProviderError, ProviderRequest, ProviderResponse
from agentv.types.usage import Usage


def answer_of(function: Callable[..., object], request: ProviderRequest | None = None) -> ProviderResponse:
    return ask(make_target("python", PythonSettings(function)), request)


def why_not(function: Callable[..., object], request: ProviderRequest | None = None) -> Failure:
    return failure_of(make_target("python", PythonSettings(function)), request)


def test_a_function_of_a_file_answers(tmp_path: Path) -> None:
    (tmp_path / "clerk.py").write_text("def answer(request): return request.question.upper()\n")

    assert ask(make_target("python", PythonSettings("clerk.py:answer"), base_dir=tmp_path)).text == "WHERE IS MY ORDER?"


def test_an_object_and_a_function_that_returns_a_coroutine_answer_too() -> None:
    async def coroutine(request: ProviderRequest) -> str:
        return request.eval_case_id

    def returns_coroutine(request: ProviderRequest) -> object:
        return coroutine(request)

    class TargetSession:
        async def __call__(self, request: ProviderRequest) -> str:
            return request.eval_case_id

    assert answer_of(returns_coroutine).text == "case-1"
    assert answer_of(TargetSession()).text == "case-1"


def test_a_function_that_cancels_itself_is_only_a_failed_answer() -> None:
    async def stray(_: ProviderRequest) -> str:
        raise asyncio.CancelledError

    assert why_not(stray).kind == "plugin_error"


def test_a_function_that_is_not_there_is_said_before_the_run(tmp_path: Path) -> None:
    with pytest.raises(PluginError, match="there is no file"):
        ask(make_target("python", PythonSettings("clerk.py:answer"), base_dir=tmp_path))


def test_a_function_of_a_file_further_up_is_named_with_its_path(tmp_path: Path) -> None:
    (tmp_path / "clerk.py").touch()
    base_dir = tmp_path / ".agentv"
    base_dir.mkdir()
    with pytest.raises(PluginError, match=r"there is no file .*; write \.\./clerk\.py, relative to .*\.agentv"):
        ask(make_target("python", PythonSettings("clerk.py:answer"), base_dir=base_dir))


def test_coroutine_functions_run_in_the_event_loop_others_in_threads() -> None:
    async def coroutine(_: ProviderRequest) -> str:
        await asyncio.sleep(0)
        return threading.current_thread().name

    def plain(_: ProviderRequest) -> str:
        return threading.current_thread().name

    assert answer_of(coroutine).text == threading.current_thread().name
    assert answer_of(plain).text != threading.current_thread().name


def test_a_response_comes_back_as_it_is() -> None:
    response = ProviderResponse("hi", model="m-1")

    assert answer_of(lambda _: response) is response


def test_a_dict_may_have_every_key_of_a_response() -> None:
    returned = {
        "text": "On its way.",
        "output_messages": [{"role": "assistant", "tool_calls": [{"tool": "lookup", "input": {"id": 7}}]}],
        "trace": [{"type": "tool_call", "name": "lookup"}],
        "usage": {"input": 10, "output": 5, "note": "x"},
        "cost_usd": 0.01,
        "metadata": {"shard": 3},
        "unknown": object(),
    }

    response = answer_of(lambda _: returned)

    assert response.text == "On its way."
    assert response.output_messages == (Message("assistant", tool_calls=(ToolCall("lookup", {"id": 7}),)),)
    assert response.trace is not None
    assert [event.type for event in response.trace] == ["tool_call"]
    assert response.usage == Usage(input=10, output=5, total=15)
    assert (response.cost_usd, response.metadata) == (0.01, {"shard": 3})
    assert ["'unknown'" in note for note in response.notes] == [True, False]
    assert "'trace', which is deprecated" in response.notes[1]


def test_messages_may_be_our_own_objects_and_their_last_answer_is_the_text() -> None:
    said = (Message("assistant", "first"), Message("assistant", "last"), Message("user", "thanks"))

    response = answer_of(lambda _: {"output_messages": said})

    assert (response.text, response.output_messages) == ("last", said)


@pytest.mark.parametrize(
    ("returned", "text"),
    [
        ({"reasoning": "r", "answer": "Paris", "usage": {"input": 1, "output": 2}}, "Paris"),
        ({"output": {"text": "Paris"}}, "Paris"),
        ({"text": "Paris", "output": {"text": "Paris"}}, "Paris"),
        ({"content": [{"type": "text", "text": "Paris"}]}, "Paris"),
        ({"answer": {"city": "Paris"}}, '{"city":"Paris"}'),
        ({"text": "", "output_messages": [Message("assistant", "Paris")]}, "Paris"),
        (ProviderResponse("", output_messages=(Message("assistant", "Paris"), Message("user", "thanks"))), "Paris"),
        (ProviderResponse("Rome", output_messages=(Message("assistant", "Paris"),)), "Rome"),
    ],
)
def test_an_object_is_read_by_the_key_of_its_answer(returned: object, text: str) -> None:
    assert answer_of(lambda _: returned).text == text


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (None, "returned a value of type NoneType; it must return a string, a ProviderResponse, a dict"),
        (4, "returned a value of type int"),
        ({"city": "x"}, "returned a dict that cannot be read: the response holds no answer; its keys: 'city'"),
        ({"text": "", "answer": "x"}, "has another answer under 'answer' than under its own keys; its keys: 'text', "),
        ({"text": "x", "answer": {"text": "y"}}, "has another answer under 'answer' than under its own keys"),
        ({"text": "x", "content": [{"type": "text", "text": "y"}]}, "has another answer under 'content'"),
        ({"answer": "x", "result": "y"}, "has several answers that differ, under 'answer' and 'result'"),
        ({"messages": []}, "has output_messages, but none of the assistant, and no text"),
        ({"text": 4}, "returned a dict that has a text of type int, not str"),
        ({"text": "x", "cost_usd": "1"}, "returned a dict that has a cost_usd of type str, not float"),
        ({"output_messages": [object()]}, "cannot be read: output_messages[0] is not a message, but of type object"),
        ({"messages": [{"role": "assistant", "parts": 4}]}, "output_messages[0].parts must be a list of parts"),
    ],
)
def test_any_other_return_value_is_refused(returned: object, message: str) -> None:
    failure = why_not(lambda _: returned)

    assert failure.kind == "unexpected_shape"
    assert message in failure.message


def test_what_the_function_raises_is_its_fault_and_named_with_its_line() -> None:
    def fail(_: ProviderRequest) -> str:
        raise LookupError("no order book")

    failure = why_not(fail)

    assert failure.kind == "plugin_error"
    assert failure.message.startswith("fail raised LookupError: no order book (")
    assert "test_python.py:" in failure.message


@pytest.mark.parametrize("asynchronous", [True, False])
def test_leaving_the_program_is_only_a_failed_answer(*, asynchronous: bool) -> None:
    async def leave_soon(_: ProviderRequest) -> str:
        sys.exit(3)

    def leave(_: ProviderRequest) -> str:
        sys.exit(3)

    failure = why_not(leave_soon if asynchronous else leave)

    assert failure.kind == "plugin_error"
    assert "SystemExit" in failure.message


def test_a_provider_error_of_the_function_says_its_own_kind() -> None:
    def fail(_: ProviderRequest) -> str:
        raise ProviderError(Failure("rate_limited", "slow down", retryable=True))

    assert why_not(fail) == Failure("rate_limited", "slow down", retryable=True)


def test_a_time_out_inside_the_function_is_not_our_deadline() -> None:
    def fail(_: ProviderRequest) -> str:
        raise TimeoutError("their socket")

    assert why_not(fail).kind == "plugin_error"


@pytest.mark.parametrize("asynchronous", [True, False])
def test_a_function_that_hangs_is_given_up(*, asynchronous: bool) -> None:
    release = threading.Event()

    async def hang_soon(_: ProviderRequest) -> str:
        return await asyncio.Future()

    def hang(_: ProviderRequest) -> str:
        release.wait(30)
        return ""

    failure = why_not(hang_soon if asynchronous else hang, make_request(timeout_s=0.05))
    release.set()

    assert failure.kind == "target_timeout"
    assert "did not return within 0.05 s" in failure.message


def test_the_naive_call_of_a_function_that_hangs_holds_up_everything() -> None:
    release = threading.Event()

    async def naive() -> None:
        async with asyncio.timeout(0.01):  # noqa: ASYNC100 - that it notices nothing is the point
            release.wait(0.5)

    asyncio.run(naive())  # half a second, and no time-out was noticed

    assert not release.is_set()


class Node(Struct):
    """An object of a framework that refers back to two others."""

    role: str
    content: str
    before: "Node | None" = None
    after: "Node | None" = None


def linked_nodes() -> Node:
    nodes = [Node("assistant", f"answer {number}") for number in range(200)]
    for before, after in pairwise(nodes):
        before.after, after.before = after, before
    return nodes[50]


def doubled(levels: int) -> object:
    value: object = ["x"]
    for _ in range(levels):
        value = [value, value]
    return value


def chain(levels: int) -> object:
    value: object = "x"
    for _ in range(levels):
        value = {"in": value}
    return value


class Loops(Struct):
    """An object that refers to itself twice."""

    role: str = "assistant"
    content: str = "Paris"
    parent: "Loops | None" = None
    owner: "Loops | None" = None


def looping() -> Loops:
    found = Loops()
    found.parent = found.owner = found
    return found


def message_with(value: object) -> Message:
    return Message("assistant", "Paris", metadata={"value": value})  # type: ignore[dict-item] # what a user may write


@pytest.mark.parametrize(
    "returned",
    [
        looping(),
        [looping(), looping()],
        {"output_messages": [looping()]},
        ProviderResponse("Paris", output_messages=(message_with(looping()),)),
        ProviderResponse("Paris", metadata={"run": looping()}),  # type: ignore[dict-item] # what a user may write
        {"text": "Paris", "trace": [TraceEvent("tool_call", input=looping())]},  # type: ignore[arg-type] # as above
    ],
    ids=lambda value: type(value).__name__,
)
def test_objects_that_refer_back_are_read_once(returned: object) -> None:
    assert answer_of(lambda _: returned).text == "Paris"


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (linked_nodes(), "the result.after.after"),
        ([{"role": "assistant", "content": "x", "metadata": doubled(100)}], "output_messages[0].metadata[0][0]"),
        ([message_with(doubled(60))], "output_messages[0].metadata.value[0]"),
        (ProviderResponse("x", output_messages=(message_with(doubled(99)),)), "output_messages[0].metadata.value[0]"),
        ({"text": "x", "tool_calls": [{"tool": "t", "input": doubled(50)}]}, "tool_calls[0].input[0]"),
        ([{"role": "assistant", "content": "x", "metadata": list(range(100_000))}], "output_messages[0].metadata[99"),
        ([message_with(chain(101))], "output_messages[0].metadata.value.in.in"),
    ],
    ids=range(7),
)
def test_objects_that_are_too_large_are_refused_with_the_place(returned: object, message: str) -> None:
    failure = why_not(lambda _: returned)
    assert failure.kind == "unexpected_shape"
    assert f"cannot be read: {message}" in failure.message
    assert len(failure.message) < 1_000


def test_a_result_that_takes_too_long_to_read_is_a_timeout() -> None:
    class Slow:
        def __getattr__(self, name: str) -> object:
            raise AttributeError(name)

        @property
        def messages(self) -> object:
            threading.Event().wait(5)
            return []

    async def coroutine(_: ProviderRequest) -> object:
        return Slow()

    for function in (lambda _: Slow(), coroutine):
        target = replace(make_target("python", PythonSettings(function)), timeout_s=0.2)
        assert failure_of(target).kind == "target_timeout"


def test_the_verdict_of_a_judge_that_is_too_large_is_refused() -> None:
    loop: dict[str, object] = {}
    loop["loop"] = loop
    for verdict in ({"score": 1, "of": doubled(100)}, loop):
        judge = PythonProvider(make_target("python", PythonSettings(lambda _, returned=verdict: returned)), None)
        with pytest.raises(ProviderError) as caught:
            asyncio.run(judge.invoke(make_request(response_schema={"type": "object"})))
        assert caught.value.failure.kind == "unexpected_shape"
