"""Select the parts of a long text that a report shows when it cannot show all."""

MAX_TEXT_CHARS = 20_000
_MAX_END_CHARS = 2_000


def shortened(text: str, *, max_chars: int = MAX_TEXT_CHARS) -> str:
    """Return a text of at most about `max_chars` characters; the middle of a longer text is omitted."""
    if len(text) <= max_chars:
        return text
    end = min(_MAX_END_CHARS, max_chars // 4)
    left_out = len(text) - max_chars
    return f"{text[: max_chars - end]}\n[… {left_out:,} characters omitted …]\n{text[-end:]}"
