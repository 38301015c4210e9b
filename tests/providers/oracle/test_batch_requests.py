"""The vendors' clients and our providers send the same to the batch endpoints."""

import json
from collections.abc import Callable, Mapping, Sequence
from email import message_from_bytes
from email.message import Message
from typing import Any, Literal

import anthropic
import openai
import pytest
from tests.providers.oracle.side_by_side import comparable
from tests.support.asking import make_request, make_target, with_provider
from tests.support.loopback import Answer, ReceivedRequest, reply, serving

from agentv.fake import Received
from agentv.providers.apis.anthropic import AnthropicSettings
from agentv.providers.apis.azure import AzureSettings
from agentv.providers.apis.openai import OpenAISettings
from agentv.types.provider import BatchApiProvider, Provider
from agentv.types.targets import ResolvedTarget

KEY = "sk-0123456789"
QUESTIONS = ("Where is it?", "Wo ist ès?")


def answers(*values: Mapping[str, Any] | bytes) -> list[Answer]:
    """Return the responses of a server in order."""
    head = {"Content-Type": "application/json"}
    return [reply(value if isinstance(value, bytes) else json.dumps(value), headers=head) for value in values]


OVER = {"id": "batch_1", "status": "completed", "output_file_id": "file_2", "request_counts": {"total": 2}}
OPENAI = ({"id": "file_1"}, {"id": "batch_1", "status": "validating"}, OVER, OVER, b"")


def sent_by(converse: Callable[[str], None], *said: Mapping[str, Any] | bytes) -> list[Mapping[str, object]]:
    """Return the requests to a server that gives these answers."""
    with serving(*answers(*said)) as server:
        converse(server.url)
    return [readable(request) for request in server.requests]


def readable(request: ReceivedRequest) -> Mapping[str, object]:
    """Return a request with the parts of an upload read; each client makes up a boundary of its own."""
    method, path, _ = request.line.split()
    sent = dict(comparable(Received(method, path, request.headers, request.body)))
    kind = request.headers.get("content-type", "")
    if not kind.startswith("multipart/"):
        return sent
    read = message_from_bytes(f"Content-Type: {kind}\r\n\r\n".encode() + request.body)
    parts = [(part["Content-Disposition"], part["Content-Type"], lines_of(part)) for part in read.get_payload()]  # type: ignore[arg-type, index] # it has parts
    key = {name: value for name, value in request.headers.items() if name in ("authorization", "api-key")}
    return {**sent, "headers": key, "body": parts}


def lines_of(part: Message) -> object:
    content = part.get_payload(decode=True)
    assert isinstance(content, bytes)
    return [json.loads(line) for line in content.splitlines()] if b"{" in content else content


def ours(target: ResolvedTarget) -> None:
    """Do with a batch all that is done with one."""

    async def use(provider: Provider) -> None:
        assert isinstance(provider, BatchApiProvider)
        assert provider.uses_batch_api
        ticket = await provider.submit_batch({text: make_request(text) for text in QUESTIONS})
        assert (await provider.poll_batch(ticket)).is_over
        assert len(await provider.fetch_batch(ticket)) == len(QUESTIONS)

    with_provider(target, use)


def openai_batch(client: openai.OpenAI, endpoint: str, bodies: Sequence[Mapping[str, Any]]) -> None:
    lines = [
        {"custom_id": f"r{number}", "method": "POST", "url": endpoint, "body": body}
        for number, body in enumerate(bodies)
    ]
    content = "".join(json.dumps(line) + "\n" for line in lines).encode()
    file = client.files.create(file=("requests.jsonl", content), purpose="batch")
    batch = client.batches.create(input_file_id=file.id, endpoint=endpoint, completion_window="24h")  # type: ignore[arg-type] # a literal for the checker
    client.batches.retrieve(batch.id)
    over = client.batches.retrieve(batch.id)
    assert over.output_file_id is not None
    client.files.content(over.output_file_id)


def bodies(key: str, **more: Any) -> list[Mapping[str, Any]]:
    return [{"model": "m", **more, key: [{"role": "user", "content": text}]} for text in QUESTIONS]


@pytest.mark.parametrize(
    ("api", "endpoint", "key"), [("chat", "/v1/chat/completions", "messages"), ("responses", "/v1/responses", "input")]
)
def test_openai_is_sent_the_same(api: Literal["chat", "responses"], endpoint: str, key: str) -> None:
    def converse(url: str) -> None:
        with openai.OpenAI(api_key=KEY, base_url=f"{url}/v1", max_retries=0) as client:
            openai_batch(client, endpoint, bodies(key))

    def settings(url: str) -> OpenAISettings:
        return OpenAISettings(model="m", base_url=f"{url}/v1", api_key=KEY, api=api, batch_api=True)

    sent = sent_by(lambda url: ours(make_target("openai", settings(url))), *OPENAI)

    assert len(sent) == 5
    assert sent == sent_by(converse, *OPENAI)


def test_azure_is_sent_the_same() -> None:
    def converse(url: str) -> None:
        version = "2024-10-01-preview"
        with openai.AzureOpenAI(api_key=KEY, azure_endpoint=url, api_version=version, max_retries=0) as client:
            openai_batch(client, "/chat/completions", bodies("messages"))

    def settings(url: str) -> AzureSettings:
        return AzureSettings(deployment="m", endpoint=url, api_key=KEY, batch_api=True)

    sent = sent_by(lambda url: ours(make_target("azure", settings(url))), *OPENAI)

    assert len(sent) == 5
    assert sent == sent_by(converse, *OPENAI)


def test_anthropic_is_sent_the_same() -> None:
    def converse(url: str) -> None:
        with anthropic.Anthropic(api_key=KEY, base_url=url, max_retries=0) as client:
            requests: Any = [
                {"custom_id": f"r{number}", "params": body}
                for number, body in enumerate(bodies("messages", max_tokens=4096))
            ]
            batch = client.messages.batches.create(requests=requests)
            client.messages.batches.retrieve(batch.id)
            list(client.messages.batches.results(batch.id))

    def settings(url: str) -> AnthropicSettings:
        return AnthropicSettings(model="m", base_url=url, api_key=KEY, batch_api=True)

    begun = {"id": "msgbatch_1", "processing_status": "in_progress"}
    over = {**begun, "processing_status": "ended", "results_url": "/v1/messages/batches/msgbatch_1/results"}
    sent = sent_by(lambda url: ours(make_target("anthropic", settings(url))), begun, over, b"")
    create, look, look_again, results = sent_by(converse, begun, over, over, b"")

    assert look == look_again  # for the address of the results, which we know
    assert sent == [create, look, results]
