"""A stand-in for your agent: it reads a question, calls a tool and writes its messages. Replace it with your own."""

import json
import sys
from pathlib import Path

HOURS = {"saturday": "10:00 to 14:00", "sunday": "closed"}


def opening_hours(day: str) -> str:
    """Return the opening hours on a day. This is the agent's one tool."""
    return HOURS.get(day, "9:00 to 18:00")


def answer(question: str) -> list[dict[str, object]]:
    """Return the agent's messages: a tool call, if the question names a day in HOURS, then the answer."""
    day = next((day for day in HOURS if day in question.lower()), None)
    if day is None:
        return [{"role": "assistant", "content": "I am sorry, I cannot help with that."}]
    hours = opening_hours(day)
    call = {"tool": "opening_hours", "input": {"day": day}, "output": hours}
    return [{"role": "assistant", "tool_calls": [call]}, {"role": "assistant", "content": f"On {day}: {hours}."}]


if __name__ == "__main__":
    prompt_file, output_file = map(Path, sys.argv[1:])
    output_file.write_text(json.dumps({"output_messages": answer(prompt_file.read_text("utf-8"))}), "utf-8")
