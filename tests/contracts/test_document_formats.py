"""What holds for every format of documents, whatever the texts of a document are."""

import re
from collections.abc import Callable, Iterator, Sequence
from html.parser import HTMLParser

import cmarkgfm  # type: ignore[import-untyped]
import pytest
from cmarkgfm.cmark import Options  # type: ignore[import-untyped]
from hypothesis import given
from hypothesis import strategies as st
from tests.support.hostile_texts import HOSTILE_TEXTS

from agentv.registry import load_reference
from agentv.reports import document_formats
from agentv.reports.document.blocks import (
    Axis,
    Block,
    Box,
    Boxes,
    Change,
    Changes,
    CountGrid,
    Details,
    Document,
    Facts,
    Histogram,
    Item,
    Items,
    Lines,
    Names,
    Phrase,
    Quote,
    RunLine,
    RunPoint,
    Scatter,
    ScatterPoint,
    Section,
    Sentence,
    Table,
    Value,
    Verdict,
)
from agentv.reports.document.text import TextRenderer
from agentv.reports.text.signs import ASCII, UNICODE
from agentv.reports.text.width import display_width

Render = Callable[[Sequence[Document]], str]
FORMATS: dict[str, Render] = {each.name: load_reference(each.document or "") for each in document_formats()}
TEXTS = st.one_of(st.text(max_size=60), st.sampled_from(HOSTILE_TEXTS))
EXPECTED_TAGS = {
    "html", "head", "meta", "link", "title", "style", "body", "main", "article", "header", "section", "p", "h1", "h2",
    "h3", "h4", "ul", "li", "dl", "dt", "dd", "div", "table", "thead", "tbody", "tr", "th", "td", "span", "small", "b",
    "details", "summary", "svg", "g", "rect", "text", "circle", "line", "figure", "figcaption", "ol",
}  # fmt: skip


def everywhere(*phrases: Phrase, text: str, more: Phrase | None = None) -> Document:
    """Return a document with all kinds of blocks, which have the phrases and the text wherever one may stand."""
    first, second = phrases[0], phrases[-1]
    blocks: tuple[Block, ...] = (
        Facts((("before", first), ("", second), (text, second))),
        Lines(phrases),
        Table(("", second), ((first, Value(second, text, (text,), share=0.5, is_best=True)),)),
        Items(
            (Item(first, (text,), "fail", (("before", text), ("", text))), Item(second)),
            more=first if more is None else more,
        ),
        Names(text, (text,), total=3),
        Changes((Change(text, text, None),)),
        Histogram((0, 3, 1)),
        RunLine(
            Axis(text, "share"),
            (RunPoint(text, 0.5, (0.25, 1.0), text, text), RunPoint(text, None, text=text), RunPoint(text, 1.0)),
        ),
        Scatter(text, text, Axis(text, "usd"), Axis(text, "score"), (ScatterPoint(text, 0.01, 0.5, (0.25, 1.0)),)),
        Boxes(text, text, Axis(text, "s"), (Box(text, (0.1, 0.2, 0.3, 0.4, 9.0), (0.2, 0.4)),)),
        CountGrid(text, (text, text), (text, text), ((1, 2), (3, 4))),
    )
    inner = (Section(first, blocks), Details(second, blocks, f"agentv show {text}"))
    verdict = Verdict((Sentence(first, "good"), Sentence(second, "bad")))
    return Document(first, (*blocks, *inner, verdict, Verdict((Sentence(second, "unsure"),))))


def documents_of(text: str, *, more: Phrase | None = None) -> Iterator[Document]:
    yield everywhere(Quote(text), text=text, more=more)
    yield everywhere(text, text=text, more=more)
    yield everywhere(("words: ", Quote(text), text), (Quote(text), Quote(text)), text=text, more=more)


class Page(HTMLParser):
    """The elements and attributes of a page, and its texts outside and inside of code."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: set[str] = set()
        self.outside = self.code = self.text = ""
        self._open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes.update(name for name, _ in attrs)
        self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        while self._open and self._open.pop() != tag:
            pass

    def handle_data(self, data: str) -> None:
        self.text += data
        if "code" in self._open:
            self.code += data
        else:
            self.outside += data


def page_of_markdown(text: str) -> Page:
    return Page(cmarkgfm.github_flavored_markdown_to_html(text, options=Options.CMARK_OPT_UNSAFE))


@pytest.mark.parametrize("render", FORMATS.values(), ids=FORMATS)
@given(TEXTS)
def test_no_text_is_a_control_character_or_reorders_its_line(render: Render, text: str) -> None:
    shown = render(list(documents_of(text)))
    assert shown.encode()
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ufeff\ufffe\uffff]", shown)


@given(TEXTS)
def test_a_terminal_shows_text_within_its_width_and_signs(text: str) -> None:
    documents = list(documents_of(text, more="a command, which is not wrapped, so that it can be copied"))
    in_unicode, in_ascii = (TextRenderer(80, signs).render(documents) for signs in (UNICODE, ASCII))
    for shown in (in_unicode, in_ascii):
        assert max(map(display_width, shown.splitlines())) <= 80
        assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ufeff]", shown)
    assert in_ascii.isascii()


@given(TEXTS)
def test_a_page_has_no_element_of_a_text(text: str) -> None:
    for hostile, plain in zip(documents_of(f"<b {text}"), documents_of("word"), strict=True):
        page = Page(FORMATS["html"]([hostile]))
        assert page.tags == Page(FORMATS["html"]([plain])).tags
        assert set(page.tags) <= EXPECTED_TAGS
        assert not {name for name in page.attributes if name.startswith("on") or name in ("style", "srcdoc")}


@given(TEXTS)
def test_markdown_has_no_markup_of_a_text(text: str) -> None:
    for hostile, plain in zip(documents_of(f"x {text}"), documents_of("word"), strict=True):
        page = page_of_markdown(FORMATS["md"]([hostile]))
        tags = [tag for tag in page.tags if tag != "code"]
        assert tags == [tag for tag in page_of_markdown(FORMATS["md"]([plain])).tags if tag != "code"]
        assert not re.search(r"[@#\[\]`]|://|www\.", page.outside)


@pytest.mark.parametrize("name", ["text", *FORMATS])
def test_every_format_has_every_text(name: str) -> None:
    def quoted() -> Quote:
        words.append(f"word{len(words)}")
        return Quote(words[-1])

    def said() -> str:
        return quoted().text

    words: list[str] = []
    blocks: tuple[Block, ...] = (
        Facts((("before", quoted()), (said(), quoted()))),
        Lines((quoted(), said(), ("a ", quoted()))),
        Table((quoted(), said()), ((quoted(), Value(quoted(), said(), (said(),), share=0.5)),)),
        Items((Item(quoted(), (said(),), "pass", ((said(), said()),)), Item(said())), more=quoted()),
        Names(said(), (said(), said()), total=5),
        Changes((Change(said(), said(), said()),)),
        Section(quoted(), (Lines((said(),)), Section("", (Lines((said(),)),)))),
        Verdict((Sentence(quoted()), Sentence(said()))),
    )
    document = Document(quoted(), (*blocks, Verdict((Sentence(said()),))))
    shown = TextRenderer(None).render([document]) if name == "text" else FORMATS[name]([document])
    assert [word for word in words if not re.search(rf"{word}\b", shown)] == []
    assert "and 3 more" in shown
