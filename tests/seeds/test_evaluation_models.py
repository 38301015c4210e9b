"""Seed evaluation.md: the model APIs of Azure, Anthropic and Google as targets."""

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
from tests.support.fake_server import serving_fake

from agentv.fake import FakeServer

SUITE = """
evalcases:
  - id: order
    expected_outcome: Says what was asked
    input_messages: [{role: user, content: Where is my order?}]
    evaluators: [{name: said, type: contains, value: Where is my order?}]
"""
KEY = "sk-0123456789"
ENVIRONMENT = {"DESK_KEY": KEY, "DESK_MODEL": "desk-1"}


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeServer]:
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    with serving_fake(keep_requests=True, retry_after_s=0.01) as server:
        monkeypatch.setenv("DESK_URL", server.url)
        yield server


def asked(run: Callable[..., Any], server: FakeServer, **target: Any) -> list[tuple[str, Mapping[str, str], Any]]:
    """Run the suite against a target and return what the server was asked: path, headers, body."""
    done = run(SUITE, targets=json.dumps({"targets": [{"name": "desk", **target}]}))
    assert [row["status"] for row in done.rows] == ["pass"], done.errors
    return [(request.path, request.headers, json.loads(request.body)) for request in server.requests]


@pytest.mark.parametrize("provider", ["azure", "azure-openai"])
def test_azure_openai_provider(provider: str, run: Callable[..., Any], server: FakeServer) -> None:
    place = {
        "resourceName": "${{ DESK_URL }}",
        "deploymentName": "${{ DESK_MODEL }}@503-x1",
        "apiKey": "${{ DESK_KEY }}",
    }
    more = {"temperature": 0.2, "maxOutputTokens": 50, "maxRetries": 1, "initialDelayMs": 1}

    refused, answered = asked(run, server, provider=provider, **place, **more)

    path, headers, body = answered
    assert path == "/openai/deployments/desk-1@503-x1/chat/completions?api-version=2024-10-01-preview"
    assert headers["api-key"] == KEY
    assert (body["temperature"], body["max_completion_tokens"]) == (0.2, 50)
    assert refused[2] == body


def test_anthropic_provider(run: Callable[..., Any], server: FakeServer) -> None:
    place = {"base_url": "${{ DESK_URL }}", "apiKey": "${{ DESK_KEY }}"}
    retry = {"maxRetries": 1, "initialDelayMs": 1}

    refused, answered, thought = [
        *asked(
            run,
            server,
            provider="anthropic",
            model="${{ DESK_MODEL }}@529-x1",
            temperature=0.2,
            maxOutputTokens=50,
            **place,
            **retry,
        ),
        *asked(run, server, provider="anthropic", model="${{ DESK_MODEL }}", thinkingBudget=2048, **place)[2:],
    ]

    path, headers, body = answered
    assert path == "/v1/messages"
    assert headers["authorization"] == f"Bearer {KEY}"
    assert (body["model"], body["temperature"], body["max_tokens"]) == ("desk-1@529-x1", 0.2, 50)
    assert refused[2] == body
    assert thought[2]["thinking"] == {"type": "enabled", "budget_tokens": 2048}


@pytest.mark.parametrize("provider", ["gemini", "google", "google-gemini"])
def test_google_gemini_provider(provider: str, run: Callable[..., Any], server: FakeServer) -> None:
    place = {"base_url": "${{ DESK_URL }}", "apiKey": "${{ DESK_KEY }}"}
    more = {"temperature": 0.2, "maxOutputTokens": 50}

    ((path, headers, body),) = asked(run, server, provider=provider, **place, **more)

    assert path == "/v1/models/gemini-2.5-flash:generateContent"
    assert headers["x-goog-api-key"] == KEY
    assert body["generationConfig"] == {"temperature": 0.2, "maxOutputTokens": 50}


def test_gemini_is_asked_again_as_the_target_says(run: Callable[..., Any], server: FakeServer) -> None:
    target = {"provider": "gemini", "base_url": "${{ DESK_URL }}", "apiKey": "${{ DESK_KEY }}", "model": "m@429-x2"}

    assert len(asked(run, server, **target, maxRetries=2, initialDelayMs=1)) == 3
