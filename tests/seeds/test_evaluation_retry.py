"""Seed evaluation.md: how often and how patiently a model is asked again."""

import asyncio
import json
import random
import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from msgspec.structs import replace

from agentv import ProviderResponse, TargetConfig
from agentv.engine.plugins.loading import load_specs
from agentv.execution.retry import retry_call
from agentv.loading.targets.targets import resolve_target
from agentv.types.failures import Failure
from agentv.types.provider import ProviderError
from agentv.types.targets import ResolvedTarget, RetryPolicy

SUITE = """
evalcases:
  - id: c
    expected_outcome: Says hello
    input_messages: [{role: user, content: hi}]
    evaluators: [{name: hello, type: contains, value: hello}]
"""
ANSWER = {"choices": [{"message": {"role": "assistant", "content": "hello"}, "finish_reason": "stop"}]}


@dataclass
class Model:
    """A chat model on loopback that answers with these statuses in turn, then always with 200."""

    statuses: list[int] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    """When it was called, in seconds."""
    url: str = ""

    @property
    def calls(self) -> int:
        return len(self.times)


@pytest.fixture
def model() -> Iterator[Model]:
    state = Model()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            state.times.append(time.monotonic())
            status = state.statuses.pop(0) if state.statuses else 200
            body = json.dumps(ANSWER if status == 200 else {"error": {"message": "not now"}}).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class calls it so
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as httpd:
        state.url = f"http://127.0.0.1:{httpd.server_port}/v1"
        Thread(target=httpd.serve_forever, daemon=True).start()
        yield state
        httpd.shutdown()


def targets_of(model: Model, **retry: Any) -> str:
    settings = {"name": "t", "provider": "openai", "base_url": model.url, "model": "m", "api_key": "none", **retry}
    return json.dumps({"targets": [settings]})


def resolved(**settings: Any) -> ResolvedTarget:
    config = TargetConfig("t", "openai", {"model": "m", "api_key": "k", "base_url": "http://localhost:1", **settings})
    return resolve_target(config, env={}, specs=load_specs())


def test_configure_retry_in_targets_yaml(run: Callable[..., Any], model: Model) -> None:
    wanted = RetryPolicy(max_retries=1, initial_delay_s=0.01, max_delay_s=0.02, backoff_factor=3.0, status_codes=(418,))
    snake = {
        "max_retries": 1,
        "retry_initial_delay_ms": 10,
        "retry_max_delay_ms": 20,
        "retry_backoff_factor": 3,
        "retry_status_codes": [418],
    }
    camel = {
        "maxRetries": 1,
        "initialDelayMs": 10,
        "maxDelayMs": 20,
        "backoffFactor": 3,
        "retryableStatusCodes": [418],
    }
    for settings in (snake, camel, {"retry": camel}):
        assert resolved(**settings).retry == wanted

    model.statuses = [418]
    (row,) = run(SUITE, targets=targets_of(model, **snake)).rows
    assert (row["status"], model.calls) == ("pass", 2)


def test_default_exponential_backoff(run: Callable[..., Any], model: Model) -> None:
    default = resolved().retry
    assert default == RetryPolicy(
        max_retries=3,
        initial_delay_s=1.0,
        max_delay_s=60.0,
        backoff_factor=2.0,
        status_codes=(408, 429, 500, 502, 503, 504, 529),
    )
    first, other = pauses(default, seed=1), pauses(default, seed=2)
    assert near(first, [1.0, 2.0, 4.0])
    assert near(other, [1.0, 2.0, 4.0])
    assert all(one != two for one, two in zip(first, other, strict=True))  # jitter
    assert all(pause not in (1.0, 2.0, 4.0) for pause in first)
    many = pauses(replace(default, max_retries=12), seed=1)
    assert many[7:] == [60.0] * 5  # 128 s and more without the cap
    assert max(many) == 60.0

    # Only the first delay is shortened: how many tries there are, and how the pauses grow, is the default.
    model.statuses = [503, 500, 429, 502, 504]
    (row,) = run(SUITE, targets=targets_of(model, retry_initial_delay_ms=20)).rows
    assert row["status"] == "error"
    assert model.calls == 4
    waited = [later - earlier for earlier, later in pairwise(model.times)]
    assert all(pause >= 0.75 * backoff for pause, backoff in zip(waited, (0.02, 0.04, 0.08), strict=True)), waited


def test_default_exponential_backoff_of_network_errors(run: Callable[..., Any], tmp_path: Path) -> None:
    with socket.socket() as nobody_listens:
        nobody_listens.bind(("127.0.0.1", 0))
        gone = Model(url=f"http://127.0.0.1:{nobody_listens.getsockname()[1]}/v1")
        (row,) = run(SUITE, targets=targets_of(gone, retry_initial_delay_ms=1)).rows
    assert row["error"]["kind"] == "transport"
    (answers,) = tmp_path.glob(".agentv/runs/*/answers.jsonl")
    assert [call["kind"] for call in json.loads(answers.read_text("utf-8"))["calls"]] == ["transport"] * 4


def pauses(policy: RetryPolicy, *, seed: int) -> list[float]:
    """Return the pauses in seconds before the retries of a call that always fails."""
    waited: list[float] = []

    async def call(_attempt: int, _ends_at: float) -> ProviderResponse:
        raise ProviderError(Failure("server_error", "not now", http_status=503))

    async def wait(pause_s: float) -> None:
        waited.append(pause_s)

    calling = retry_call(call, policy, rng=random.Random(seed), clock=lambda: datetime.now(UTC), sleep=wait)
    with pytest.raises(ProviderError):
        asyncio.run(calling)
    return waited


def near(found: list[float], expected: list[float]) -> bool:
    return found == pytest.approx(expected, rel=0.25)


@pytest.mark.parametrize(("status", "kind"), [(401, "auth"), (403, "auth"), (400, "bad_request"), (404, "bad_request")])
def test_non_retryable_errors(status: int, kind: str, run: Callable[..., Any], model: Model) -> None:
    model.statuses = [status]
    (row,) = run(SUITE, targets=targets_of(model)).rows
    assert row["error"]["kind"] == kind
    assert row["error"]["http_status"] == status
    assert model.calls == 1
