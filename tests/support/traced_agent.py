"""An agent that sends spans with the standard library alone: as a command, and as spans for other kinds of targets.

`python traced_agent.py QUESTION [MODE …]` answers, and calls `find_order` if the question has the word order. Modes:
`unfinished` never sends the outermost span, `silent` sends no messages, `fails` ends with 1, `json` prints messages
without a tool call, `quiet` prints nothing, `unsent` sends nothing.
"""

import json
import os
import secrets
import sys
import urllib.request
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[2]))
from tests.support.spans import START, export, span

TOKENS = {"gen_ai.usage.input_tokens": 10, "gen_ai.usage.output_tokens": 5}
MODEL = "gpt-4o-mini"


def answer_to(question: str) -> str:
    return f"{question}: on its way." if "order" in question else f"{question}: you are welcome."


def spans_of_call(
    question: str, *, trace_id: str, parent: str, modes: tuple[str, ...] = (), at_s: int = 0
) -> list[dict[str, Any]]:
    """Return the spans of one answer, which takes four seconds, the outermost last, as they end."""
    root = secrets.token_hex(8)
    said: list[dict[str, Any]] = [{"role": "user", "parts": [{"type": "text", "content": question}]}]
    final = {"role": "assistant", "parts": [{"type": "text", "content": answer_to(question)}]}
    made: list[dict[str, Any]] = []
    if "order" in question:
        arguments = {"question": question}
        call = {"type": "tool_call", "id": "c1", "name": "find_order", "arguments": arguments}
        asks = {"role": "assistant", "parts": [call]}
        made.append(_chat(said, asks, modes))
        said = [*said, asks, {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c1", "response": "ok"}]}]
    made.append(_chat(said, final, modes))
    named = [
        {
            **each,
            "traceId": trace_id,
            "spanId": secrets.token_hex(8),
            "parentSpanId": root,
            **_times(at_s + number, at_s + number + 1),
        }
        for number, each in enumerate(made, start=1)
    ]
    agent = span(0, None, {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "shop"})
    ids = {"traceId": trace_id, "spanId": root, "parentSpanId": parent}
    outermost = {**agent, **ids, **_times(at_s, at_s + 4)}
    return named if "unfinished" in modes else [*named, outermost]


def _times(start_s: int, end_s: int) -> dict[str, str]:
    return {
        "startTimeUnixNano": str(int(START) + start_s * 10**9),
        "endTimeUnixNano": str(int(START) + end_s * 10**9),
    }


def _chat(said: list[dict[str, Any]], output: dict[str, Any], modes: tuple[str, ...]) -> dict[str, Any]:
    messages = {"gen_ai.input.messages": json.dumps(said), "gen_ai.output.messages": json.dumps([output])}
    content = {} if "silent" in modes else messages
    return span(0, None, {"gen_ai.operation.name": "chat", "gen_ai.request.model": MODEL, **content, **TOKENS})


def post(endpoint: str, spans: list[dict[str, Any]]) -> None:
    body, headers = json.dumps(export(*spans)).encode(), {"Content-Type": "application/json"}
    urllib.request.urlopen(urllib.request.Request(f"{endpoint}/v1/traces", body, headers), timeout=30).read()


def main(question: str, *modes: str) -> None:
    _, trace_id, parent, _ = os.environ["TRACEPARENT"].split("-")
    if "unsent" not in modes:
        spans = spans_of_call(question, trace_id=trace_id, parent=parent, modes=modes)
        post(os.environ["OTEL_EXPORTER_OTLP_ENDPOINT"], spans)
    text = answer_to(question)
    message = {"role": "assistant", "content": text}
    print("" if "quiet" in modes else json.dumps({"output_messages": [message]}) if "json" in modes else text, end="")
    sys.exit("fails" in modes)


if __name__ == "__main__":
    main(*sys.argv[1:])
