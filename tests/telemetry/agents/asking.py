"""What several agents do: send to the receiver, and ask with a plain client."""

import importlib
import json

from shop import MODEL, QUESTIONS, SYSTEM, TOOL, find_order


def send_to_receiver():
    """Return a tracer provider, and set one for logs, that export to OTEL_EXPORTER_OTLP_ENDPOINT."""
    from opentelemetry import trace
    from opentelemetry._logs import set_logger_provider
    from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk._logs import LoggerProvider
    from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    provider, logs = TracerProvider(), LoggerProvider()
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    logs.add_log_record_processor(BatchLogRecordProcessor(OTLPLogExporter()))
    trace.set_tracer_provider(provider)
    set_logger_provider(logs)
    return provider


def instrument(names: str, provider) -> None:
    """Instrument with classes that are named as MODULE:CLASS, or functions, by commas; an empty name is none."""
    for each in filter(None, names.split(",")):
        module, _, name = each.partition(":")
        found = getattr(importlib.import_module(module), name)
        if isinstance(found, type):
            found().instrument(tracer_provider=provider)
        else:
            found()


def ask_with_client(client) -> None:
    """Ask the questions with a plain client of OpenAI's chat API, and call the tool for it."""
    for question in QUESTIONS:
        answer_of(client, question, find_order)


def answer_of(client, question: str, find) -> str:
    """Return the answer of a plain client of OpenAI's chat API to a question, with `find` as its tool."""
    messages = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": question}]
    while True:
        message = client.chat.completions.create(model=MODEL, messages=messages, tools=[TOOL]).choices[0].message
        if not message.tool_calls:
            return message.content
        messages.append(message.model_dump(exclude_none=True))
        for call in message.tool_calls:
            found = find(**json.loads(call.function.arguments))
            messages.append({"role": "tool", "tool_call_id": call.id, "content": found})


def ask_with_anthropic(client, *, is_streaming: bool = False) -> None:
    """Ask the questions with a plain client of Anthropic, and call the tool for it."""
    function = TOOL["function"]
    tool = {"name": function["name"], "description": function["description"], "input_schema": function["parameters"]}
    for question in QUESTIONS:
        messages = [{"role": "user", "content": question}]
        while True:
            request = {"model": MODEL, "system": SYSTEM, "messages": messages, "tools": [tool], "max_tokens": 100}
            if is_streaming:
                with client.messages.stream(**request) as stream:
                    reply = stream.get_final_message()
            else:
                reply = client.messages.create(**request)
            if reply.stop_reason != "tool_use":
                break
            messages.append({"role": "assistant", "content": [each.model_dump() for each in reply.content]})
            results = [
                {"type": "tool_result", "tool_use_id": each.id, "content": find_order(**each.input)}
                for each in reply.content
                if each.type == "tool_use"
            ]
            messages.append({"role": "user", "content": results})
