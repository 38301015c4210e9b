"""Every model API with every fault of the fake model server ends in one failure of the right kind, in time."""

import asyncio
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping

import pytest
from tests.support.asking import ask, failure_of, make_request, with_provider
from tests.support.fake_server import serving_fake
from tests.support.model_apis import KEY, MODEL_APIS

from agentv.execution.backends.local import LocalBackend
from agentv.fake import FAULTS, FakeServer
from agentv.providers import PROVIDERS
from agentv.types.provider import Provider, ProviderError

KINDS: Mapping[str, str] = {
    **dict.fromkeys(["429", "429-date", "429-ms", "429-bare", "no-credit"], "rate_limited"),
    **dict.fromkeys(["400", "404"], "bad_request"),
    **dict.fromkeys(["401", "403"], "auth"),
    **dict.fromkeys(["408", "500", "502", "503", "504", "529"], "server_error"),
    **dict.fromkeys(["content-filter", "blocked-prompt"], "content_filter"),
    **dict.fromkeys(["empty", "truncated", "not-utf8", "nested", "html", "bad-gzip"], "malformed_reply"),
    **dict.fromkeys(["null", "wrong-types", "wrong-leaves", "error-in-200"], "unexpected_shape"),
    **dict.fromkeys(["reset", "hang-up", "cut", "redirect"], "transport"),
    **dict.fromkeys(["huge", "gzip-bomb"], "too_large"),
    **dict.fromkeys(["hang", "stall", "drip"], "deadline"),
}
ANSWERS: Mapping[str, str] = {
    "length": "You said: Where is my order?",
    "empty-text": "",
    "prose": "Well, it depends on how you look at it.",
    "half-character": "half \ud83d one",
    "nan": "You said: Where is my order?",
    **dict.fromkeys(["error-event", "batch-lost", "batch-expired", "batch-failed"], "You said: Where is my order?"),
}
STREAMED_KINDS: Mapping[str, str] = {
    **KINDS,
    "truncated": "transport",  # a stream has an end of its own, and a connection that is closed early is tried again
    "error-in-200": "server_error",
    "null": "malformed_reply",
    "error-event": "server_error",
}
"""What is another failure when the reply comes as events."""

DEADLINE_S = 0.5
OVERTIME_S = 5.0  # for a busy machine; without a deadline these servers never end
WAITED_S: Mapping[str, float | None] = {"429": 1.0, "429-date": None, "429-ms": 1.0, "429-bare": None}

apis = pytest.mark.parametrize("api", MODEL_APIS)


@pytest.fixture(scope="module")
def server() -> Iterator[FakeServer]:
    with serving_fake() as server:
        yield server


def test_every_model_provider_and_every_fault_is_here() -> None:
    assert {api.provider for api in MODEL_APIS.values()} == {spec.name for spec in PROVIDERS if spec.is_model_api}
    assert KINDS.keys() | ANSWERS.keys() == FAULTS.keys()


@apis
@pytest.mark.parametrize("fault", [fault for fault, kind in KINDS.items() if kind != "deadline"])
def test_every_fault_is_one_failure_of_its_kind(server: FakeServer, api: str, fault: str) -> None:
    failure = failure_of(MODEL_APIS[api].target(server.url, f"m@{fault}"))

    assert failure.kind == KINDS[fault]
    assert failure.message
    assert KEY not in repr(failure)
    assert fault not in WAITED_S or fault == "429-date" or failure.retry_after_s == WAITED_S[fault]
    assert fault != "429-date" or 0 <= (failure.retry_after_s or 0) <= 1


@apis
@pytest.mark.parametrize("fault", [fault for fault, kind in STREAMED_KINDS.items() if kind != "deadline"])
def test_every_fault_of_a_stream_is_one_failure_of_its_kind(server: FakeServer, api: str, fault: str) -> None:
    failure = failure_of(MODEL_APIS[api].target(server.url, f"m@{fault}", stream=True))

    assert failure.kind == STREAMED_KINDS[fault]
    assert failure.message
    assert KEY not in repr(failure)


@apis
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("fault", [fault for fault, kind in KINDS.items() if kind == "deadline"])
def test_a_server_that_never_ends_meets_the_deadline_and_no_more(
    server: FakeServer, api: str, fault: str, *, stream: bool
) -> None:
    async def use(provider: Provider) -> float:
        now = asyncio.get_running_loop().time
        started = now()
        with pytest.raises(ProviderError) as raised:
            await provider.invoke(make_request(timeout_s=DEADLINE_S))
        assert (raised.value.failure.kind, raised.value.failure.retryable) == ("deadline", True)
        return now() - started

    took_s = with_provider(MODEL_APIS[api].target(server.url, f"m@{fault}", stream=stream), use)

    assert DEADLINE_S <= took_s < DEADLINE_S + OVERTIME_S


@apis
@pytest.mark.parametrize("fault", ANSWERS)
def test_what_only_looks_odd_is_an_answer(server: FakeServer, api: str, fault: str) -> None:
    response = ask(MODEL_APIS[api].target(server.url, f"m@{fault}"))
    streams = fault != "error-event" and (api, fault) != ("anthropic", "nan")  # its events say the number of a block
    streamed = ask(MODEL_APIS[api].target(server.url, f"m@{fault}", stream=True)) if streams else response

    assert response.text == streamed.text == ANSWERS[fault]
    assert response.notes == streamed.notes
    assert bool(response.notes) == (fault == "length")


EACH, GOOD, AT_ONCE = 20, 1_000, 64


async def ends(provider: Provider, faults: list[str]) -> Counter[str]:
    """Send many requests at once, each with its own fault ("" for none), and count the outcomes."""
    counted: Counter[str] = Counter()

    async def ask_one(fault: str) -> None:
        slow = KINDS.get(fault) == "deadline"
        request = make_request(model=f"m@{fault}" if fault else "m", timeout_s=DEADLINE_S if slow else None)
        try:
            counted[(await provider.invoke(request)).text] += 1
        except ProviderError as error:
            counted[f"{fault}: {error.failure.kind}"] += 1

    async def nothing(_: None) -> None: ...

    await LocalBackend(AT_ONCE).run(ask_one, faults, nothing)
    return counted


def test_a_thousand_good_cases_among_twenty_of_each_fault_are_all_answered(server: FakeServer) -> None:
    faults = [""] * GOOD + [fault for fault in KINDS for _ in range(EACH)]
    random.Random(0).shuffle(faults)

    counted = with_provider(MODEL_APIS["openai-chat"].target(server.url), lambda provider: ends(provider, faults))

    good = {"You said: Where is my order?": GOOD}
    assert counted == good | {f"{fault}: {kind}": EACH for fault, kind in KINDS.items()}


FLOODED = """
import json, resource, sys
from tests.support.asking import failure_of
from tests.support.model_apis import MODEL_APIS

url, mib = sys.argv[1], int(sys.argv[2])
targets = {(api, fault, stream): MODEL_APIS[api].target(url, f"m@{fault}", stream=stream)
           for api in MODEL_APIS for fault in ("404", "huge", "gzip-bomb") for stream in (False, True)}
kinds = [failure_of(target).kind for (_, fault, _), target in targets.items() if fault == "404"]  # all is imported now
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps(sorted({failure_of(target).kind for (_, fault, _), target in targets.items() if fault != "404"})))
grown_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak
sys.exit(f"grew by {grown_kib} KiB" if grown_kib > mib * 2**10 else 0)
"""


def test_600_mb_from_every_api_need_less_than_100(server: FakeServer) -> None:
    argv = [sys.executable, "-c", FLOODED, server.url, "100"]
    result = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=100)

    assert (result.stdout, result.stderr) == ('["too_large"]\n', "")
