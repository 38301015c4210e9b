"""The whole text of a part of a result, in parts: pages of a result shorten long ones."""

from collections.abc import Mapping

from agentv.reports.run.transcript import transcript_text
from agentv.reports.run.views import RowDetail
from agentv.reports.text.markup import Html, element, join
from agentv.storage.records.encode import export_record
from agentv.types.messages_json import pretty_json
from agentv.view.address import Query, path_to

PART_CHARS = 100_000
"""The number of characters on one page."""
_SHOWN_CHARS = 15_000
"""The size from which a text is linked: the pages of results shorten texts a little above it."""


def texts_of(detail: RowDetail) -> Mapping[str, str]:
    """Return the texts of a result by name, without empty ones."""
    result, case, answer = detail.result, detail.case, detail.answer
    messages = (answer.output_messages if answer is not None else result.output_messages) or ()
    texts = {
        "question": "" if case is None else case.question,
        "answer": result.candidate_answer,
        "transcript": transcript_text(messages, is_full=True),
        "record": pretty_json(export_record(result, include_trace=True)),
    }
    return {name: text for name, text in texts.items() if text}


def links_to_texts(detail: RowDetail, address: str) -> Html | None:
    """Return links to the texts of a result that its page may shorten; None if there are none."""
    long = {name: text for name, text in texts_of(detail).items() if len(text) > _SHOWN_CHARS}
    links = [
        element("li", element("a", name, href=f"{address}{path_to('text', name)}"), f" ({len(text):,} characters)")
        for name, text in long.items()
    ]
    return element("section", element("h3", "Whole texts"), element("ul", *links)) if links else None


def text_part(detail: RowDetail, name: str, query: Query, path: str) -> Html:
    """Return one part of a text of `texts_of`, with links to the parts before and after."""
    text = texts_of(detail)[name]
    last = (len(text) - 1) // PART_CHARS
    number = min(_number(query.last("part")), last)
    part = text[number * PART_CHARS : (number + 1) * PART_CHARS]
    pages = [(number - 1, "previous part", "prev"), (number + 1, "next part", "next")]
    links = [
        element("a", words, href=Query((("part", str(other + 1)),)).address(path), rel=rel)
        for other, words, rel in pages
        if 0 <= other <= last
    ]
    lines = join(element("span", chunk) for chunk in _chunks(part))
    return join(
        (
            element("p", f"Part {number + 1:,} of {last + 1:,}, {len(text):,} characters in all"),
            element("div", lines, class_="text whole", dir="auto"),
            element("nav", *links, class_="pages", aria_label="Parts of the text") if links else None,
        )
    )


def _number(text: str | None) -> int:
    is_number = text is not None and text.isascii() and text.isdecimal() and len(text) < 10  # noqa: PLR2004 - digits
    return max(0, int(text or "1") - 1) if is_number else 0


def _chunks(text: str, size: int = 10_000) -> list[str]:
    """Return a text in pieces that no element shortens."""
    return [text[start : start + size] for start in range(0, len(text), size)]
