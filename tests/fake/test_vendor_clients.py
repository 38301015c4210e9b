"""The vendors' own clients work with the fake server, which shows that it implements their APIs."""

import json
import warnings

import anthropic
import openai
import pytest
from tests.fake.client import SAID

from agentv.fake import FakeServer

SAY = "Where is my order?"
SCHEMA = {
    "type": "object",
    "properties": {"order": {"type": "integer"}},
    "required": ["order"],
    "additionalProperties": False,
}


def test_openai_chat_embeddings_and_models(fake_server: FakeServer) -> None:
    with openai.OpenAI(base_url=f"{fake_server.url}/v1", api_key="k", max_retries=0) as client:
        said = client.chat.completions.create(model="fake", messages=[{"role": "user", "content": SAY}])
        vector = client.embeddings.create(model="fake", input=SAY).data[0].embedding
        models = [model.id for model in client.models.list()]
    assert (said.choices[0].message.content, said.usage and said.usage.total_tokens) == (SAID, 12)
    assert len(vector) == 256
    assert "fake" in models


def test_openai_streams_of_responses_with_a_tool(fake_server: FakeServer) -> None:
    with (
        openai.OpenAI(base_url=f"{fake_server.url}/v1", api_key="k", max_retries=0) as client,
        client.responses.stream(
            model="calls-tool",
            input=SAY,
            tools=[{"type": "function", "name": "lookup", "parameters": dict(SCHEMA), "strict": True}],
        ) as stream,
    ):
        (call,) = stream.get_final_response().output
    assert call.type == "function_call"
    assert json.loads(call.arguments) == {"order": 1}


def test_openai_batches(fake_server: FakeServer) -> None:
    body = {"model": "fake", "messages": [{"role": "user", "content": SAY}]}
    line = json.dumps({"custom_id": "one", "method": "POST", "url": "/v1/chat/completions", "body": body})
    with openai.OpenAI(base_url=f"{fake_server.url}/v1", api_key="k", max_retries=0) as client:
        file = client.files.create(purpose="batch", file=("in.jsonl", line.encode()))
        made = client.batches.create(input_file_id=file.id, endpoint="/v1/chat/completions", completion_window="24h")
        polled = [client.batches.retrieve(made.id) for _ in range(2)]
        output = client.files.content(polled[1].output_file_id or "").text
    assert [batch.status for batch in polled] == ["in_progress", "completed"]
    assert json.loads(output)["custom_id"] == "one"


def test_azure_with_its_deployments(fake_server: FakeServer) -> None:
    with openai.AzureOpenAI(azure_endpoint=fake_server.url, api_key="k", api_version="2024-10-21") as client:
        said = client.chat.completions.create(model="gpt", messages=[{"role": "user", "content": SAY}])
        response = client.responses.create(model="gpt", input=SAY)
    assert said.choices[0].message.content == response.output_text == SAID
    assert fake_server.calls[0].path == "/openai/deployments/gpt/chat/completions"


def test_anthropic_with_thinking_a_tool_and_a_stream(fake_server: FakeServer) -> None:
    with (
        anthropic.Anthropic(base_url=fake_server.url, api_key="k", max_retries=0) as client,
        client.messages.stream(
            model="calls-tool",
            max_tokens=2000,
            thinking={"type": "enabled", "budget_tokens": 1024},
            tools=[{"name": "lookup", "input_schema": dict(SCHEMA)}],
            messages=[{"role": "user", "content": SAY}],
        ) as stream,
    ):
        said = stream.get_final_message()
    assert [block.type for block in said.content] == ["thinking", "tool_use"]
    assert said.stop_reason == "tool_use"


def test_anthropic_batches(fake_server: FakeServer) -> None:
    with anthropic.Anthropic(base_url=fake_server.url, api_key="k", max_retries=0) as client:
        made = client.messages.batches.create(
            requests=[
                {
                    "custom_id": "one",
                    "params": {"model": "fake", "max_tokens": 99, "messages": [{"role": "user", "content": SAY}]},
                }
            ]
        )
        polled = [client.messages.batches.retrieve(made.id) for _ in range(2)]
        (row,) = client.messages.batches.results(made.id)
    assert [batch.processing_status for batch in polled] == ["in_progress", "ended"]
    assert (row.custom_id, row.result.type) == ("one", "succeeded")


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # the client's own
def test_gemini_plain_streamed_and_embedded(fake_server: FakeServer) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the client's own code is deprecated Python
        from google import genai  # noqa: PLC0415 - its warnings come with the import

    client = genai.Client(api_key="k", http_options={"base_url": fake_server.url})
    try:
        said = client.models.generate_content(model="fake", contents=SAY)
        streamed = [part.text or "" for part in client.models.generate_content_stream(model="fake", contents=SAY)]
        embedded = client.models.embed_content(model="fake", contents=SAY).embeddings
    finally:
        client.close()
    assert said.text == "".join(streamed) == SAID
    assert said.usage_metadata is not None
    assert said.usage_metadata.total_token_count == 12
    assert embedded is not None
    assert len(embedded[0].values or ()) == 256


ERRORS: dict[str, type[Exception]] = {
    "429": openai.RateLimitError,
    "401": openai.AuthenticationError,
    "403": openai.PermissionDeniedError,
    "400": openai.BadRequestError,
    "500": openai.InternalServerError,
    "reset": openai.APIConnectionError,
}


@pytest.mark.parametrize("name", ERRORS)
def test_its_faults_are_what_the_client_calls_them(fake_server: FakeServer, name: str) -> None:
    with (
        openai.OpenAI(base_url=f"{fake_server.url}/v1", api_key="k", max_retries=0) as client,
        pytest.raises(ERRORS[name]),
    ):
        client.chat.completions.create(model=f"fake@{name}", messages=[{"role": "user", "content": SAY}])


def test_openai_streams_of_chat_with_a_tool_and_usage(fake_server: FakeServer) -> None:
    with (
        openai.OpenAI(base_url=f"{fake_server.url}/v1", api_key="k", max_retries=0) as client,
        client.chat.completions.stream(
            model="calls-tool",
            messages=[{"role": "user", "content": SAY}],
            tools=[{"type": "function", "function": {"name": "lookup", "parameters": dict(SCHEMA), "strict": True}}],
            stream_options={"include_usage": True},
        ) as stream,
    ):
        said = stream.get_final_completion()
    calls = said.choices[0].message.tool_calls or []
    assert [json.loads(call.function.arguments) for call in calls] == [{"order": 1}]
    assert said.usage is not None
    assert said.usage.total_tokens > 0


def test_openai_reads_a_failing_stream_as_one(fake_server: FakeServer) -> None:
    with openai.OpenAI(base_url=f"{fake_server.url}/v1", api_key="k", max_retries=0) as client:
        chat = client.chat.completions.create(
            model="fake@error-event", messages=[{"role": "user", "content": SAY}], stream=True
        )
        with pytest.raises(openai.APIError, match="Overloaded"):
            list(chat)
        *_, last = client.responses.create(model="fake@error-event", input=SAY, stream=True)
    assert (last.type, getattr(last, "message", "")) == ("error", "Overloaded.")


def test_anthropic_reads_a_failing_stream_as_one(fake_server: FakeServer) -> None:
    with (
        anthropic.Anthropic(base_url=fake_server.url, api_key="k", max_retries=0) as client,
        pytest.raises(anthropic.APIStatusError, match="Overloaded"),
        client.messages.stream(
            model="fake@error-event", max_tokens=99, messages=[{"role": "user", "content": SAY}]
        ) as stream,
    ):
        stream.get_final_message()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # the client's own
def test_gemini_reads_a_failing_stream_as_one(fake_server: FakeServer) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the client's own code is deprecated Python
        from google import genai  # noqa: PLC0415 - its warnings come with the import
        from google.genai import errors  # noqa: PLC0415 - likewise

    client = genai.Client(api_key="k", http_options={"base_url": fake_server.url})
    try:
        with pytest.raises(errors.APIError, match="Overloaded"):
            list(client.models.generate_content_stream(model="fake@error-event", contents=SAY))
    finally:
        client.close()
