"""The agent of the converted suites: it answers two questions, one of them with a tool call."""


def answer(request):
    if "open" in request.question:
        return "At nine."
    call = {"tool": "policy", "input": {"topic": "returns", "lang": "en"}}
    return {"output_messages": [{"role": "assistant", "content": "Within 30 days.", "tool_calls": [call]}]}
