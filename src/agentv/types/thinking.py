"""The reasoning of a model at the start of its text, inside of `<think>` tags."""

import re

_OPENING_TAG = re.compile(r"\s*<(think|thinking)>")


def split_thinking(text: str) -> tuple[str, str | None]:
    """Return a text without `<think>…</think>` at its start, and the reasoning in it, None if there is none.

    A text without the closing `</think>` is reasoning only.
    """
    start = _OPENING_TAG.match(text)
    if start is None:
        return text, None
    thoughts, _, rest = text[start.end() :].partition(f"</{start[1]}>")
    return rest.lstrip(), thoughts.strip() or None
