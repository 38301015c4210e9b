"""A small report of tables and findings, of which text, Markdown and a page are made alike."""

from msgspec import Struct


class Finding(Struct, frozen=True):
    """One thing to be read: what it is, and what each of several said of it."""

    head: str
    said: tuple[tuple[str, str], ...] = ()


class Part(Struct, frozen=True):
    """A part with a title. The first of `rows` names the columns; `findings` follow, then `notes`.

    `left_out` says what stands elsewhere.
    """

    title: str
    rows: tuple[tuple[str, ...], ...] = ()
    findings: tuple[Finding, ...] = ()
    notes: tuple[str, ...] = ()
    left_out: str = ""


class Sheet(Struct, frozen=True):
    """A report: what it is about, a sentence that says what was found, and its parts."""

    title: str
    sentence: str
    parts: tuple[Part, ...]
