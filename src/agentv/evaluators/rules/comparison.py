"""How rules on a text compare it with an expected text: what they ignore, and where they look."""

from collections.abc import Callable, Iterable
from typing import Annotated, Any, Protocol, TypeAlias, get_args

from msgspec import Meta, Struct

from agentv.evaluators.rules.base import quoted
from agentv.scoring.text.ignoring import Form, Ignored, forms_of, one_spaced, without_signs
from agentv.scoring.text.locations import Location, finder_of

TextPredicate: TypeAlias = Callable[[str, str], bool]
"""A function of the judged text and an expected text, such as `contains`."""

CASE_HELP = "treat `Yes` and `yes` as different"
_IGNORE_HELP = "differences that do not count"
_LOCATION_HELP = "search for the value, as whole words, at the `start` or `end` of the text, or in `any` place"
_IN_PLACE_OF_IGNORE = {
    "ignore_case": "write `ignore: [case]`",
    "ignore_punctuation": "write `ignore: [punctuation]`",
    "ignore_markdown": "write `ignore: [markdown]`",
    **dict.fromkeys(("ignore_space", "ignore_whitespace", "normalize_whitespace"), "write `ignore: [space]`"),
    **dict.fromkeys(("normalize", "strip", "trim"), "write `ignore:` with any of case, punctuation, markdown, space"),
}

Ignore: TypeAlias = Annotated[
    Ignored | tuple[Ignored, ...], Meta(description=_IGNORE_HELP, extra={"instead": _IN_PLACE_OF_IGNORE})
]
AtLocation: TypeAlias = Annotated[
    Location | None,
    Meta(
        description=_LOCATION_HELP,
        extra={"spellings": {"begin": "start"}, "instead": {"position": "write `location: start`, `end` or `any`"}},
    ),
]


class IgnoringSettings(Protocol):
    """Settings of a rule that may ignore differences. Case is ignored if either setting says so."""

    @property
    def case_sensitive(self) -> bool:
        """Whether case counts, unless `ignore` lists it."""
        ...

    @property
    def ignore(self) -> Ignored | tuple[Ignored, ...]:
        """One word or several."""
        ...


class Comparison(Struct, frozen=True):
    """How texts are compared: the judged text and the expected ones are converted first, each once."""

    forms: tuple[Form, ...]
    """The forms in which texts are compared; the last is without all that is ignored."""
    of: Callable[[str], Any]
    of_expected: Callable[[str], Any]
    matches: Callable[[Any, Any], bool]
    clause: str
    """What is ignored, for messages: `ignoring case, space`, or ""."""

    def hit(self, line: str) -> str:
        """Return a hit, with what was ignored."""
        return f"{line}, {self.clause}" if self.clause else line

    def miss(self, line: str, text: str) -> str:
        """Return a miss with the judged text and, if it is another one, the text that was compared."""
        line = f"{line}, got {quoted(text)}"
        if not self.clause:
            return line
        compared = self.forms[-1](text).strip()
        return f"{line} ({'' if compared == text else f'compared as {quoted(compared)}, '}{self.clause})"


def comparison_of(settings: IgnoringSettings, matches: TextPredicate) -> Comparison:
    """Return a comparison by a predicate, in each form of the texts that the settings allow."""
    ignored = _ignored_by(settings)
    forms = forms_of(ignored, case_sensitive=settings.case_sensitive)
    clause = f"ignoring {_listed(ignored)}" if ignored else ""
    if len(forms) == 1:
        return Comparison(forms, forms[0], forms[0], matches, clause)

    def in_forms(text: str) -> tuple[str, ...]:
        return tuple([form(text) for form in forms])

    def match_in_a_form(texts: tuple[str, ...], expected: tuple[str, ...]) -> bool:
        return any(map(matches, texts, expected))

    return Comparison(forms, in_forms, in_forms, match_in_a_form, clause)


def comparison_at(settings: IgnoringSettings, location: Location) -> Comparison:
    """Return a comparison with the whole words at a location of the text."""
    ignored = _ignored_by(settings)
    ignores_space = "space" in ignored
    # Without white space there are no words: it is left in the text, and optional in what is searched for.
    forms = forms_of(ignored - {"space"}, case_sensitive=settings.case_sensitive)

    def in_forms(text: str) -> tuple[str, ...]:
        return tuple([(one_spaced(form) if ignores_space else form)(text) for form in forms])

    def finders(expected: str) -> tuple[Callable[[str], bool], ...]:
        texts = [form(expected) for form in forms]
        if ignores_space:
            texts = [without_signs(text, punctuation=False, space=True) for text in texts]
        return tuple([finder_of(text, location, ignores_space=ignores_space) for text in texts])

    def found_in_a_form(texts: tuple[str, ...], finders: tuple[Callable[[str], bool], ...]) -> bool:
        return any(finder(text) for text, finder in zip(texts, finders, strict=True))

    clause = f"ignoring {_listed(ignored)}" if ignored else ""
    return Comparison(forms, in_forms, finders, found_in_a_form, clause)


def check_remains(name: str, texts: Iterable[str], settings: IgnoringSettings) -> None:
    """Raise ValueError for an expected text of which nothing is left without what the settings ignore.

    `name` is the name of its setting. A blank text is refused, too: it is for the caller to allow it.
    """
    ignored = _ignored_by(settings)
    forms = forms_of(ignored, case_sensitive=settings.case_sensitive)
    for text in texts:
        if not all(form(text).strip() for form in forms[1:]):
            raise ValueError(f"`{name}` {quoted(text)} is empty without {_listed(ignored)}, which `ignore` leaves out")


def _ignored_by(settings: IgnoringSettings) -> frozenset[Ignored]:
    return frozenset((settings.ignore,) if isinstance(settings.ignore, str) else settings.ignore)


def _listed(ignored: frozenset[Ignored]) -> str:
    return ", ".join(part for part in get_args(Ignored) if part in ignored)
