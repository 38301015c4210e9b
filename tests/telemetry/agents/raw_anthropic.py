"""Ask with a plain client of Anthropic; `stream` as the second argument streams."""

import sys

from anthropic import Anthropic
from asking import instrument, send_to_receiver
from shop import MODEL, QUESTIONS, SYSTEM, TOOL, find_order

provider = send_to_receiver()
instrument(sys.argv[1], provider)
client, function = Anthropic(), TOOL["function"]
tool = {"name": function["name"], "description": function["description"], "input_schema": function["parameters"]}
for question in QUESTIONS:
    messages = [{"role": "user", "content": question}]
    while True:
        request = {"model": MODEL, "system": SYSTEM, "messages": messages, "tools": [tool], "max_tokens": 100}
        if sys.argv[2:] == ["stream"]:
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
provider.shutdown()
