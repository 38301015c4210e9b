"""The form in which texts are compared: one Unicode form, one case, one blank between words."""

from typing import Literal, TypeAlias

from msgspec import Struct

from agentv.scoring.unicode_forms import normalized

UnicodeForm: TypeAlias = Literal["NFC", "NFKC", "none"]

_OTHER_BLANKS = tuple(letter for letter in map(chr, range(128)) if letter.isspace() and letter != " ")
_BLANKS = str.maketrans(dict.fromkeys(_OTHER_BLANKS, " "))


class TextForm(Struct, frozen=True, kw_only=True):
    """Which differences between two texts count for nothing.

    `unicode` NFC makes one letter of e and a combining accent; NFKC also takes wide letters and ligatures for plain
    ones. Without `case_sensitive`, case counts for nothing (`Straße` is `STRASSE`). With `normalize_whitespace`, a run
    of white space is one blank and none stands at the ends.
    """

    unicode: UnicodeForm = "NFC"
    case_sensitive: bool = False
    normalize_whitespace: bool = True

    def of(self, text: str) -> str:
        r"""Return a text in this form.

        >>> TextForm().of("  Cafe\u0301\n  NOIR")
        'café noir'
        """
        if not text.isascii():
            made = self._of_letters(text)
            return " ".join(made.split()) if self.normalize_whitespace else made
        plain = text if self.case_sensitive else text.lower()  # every Unicode form of it is itself
        return _well_spaced(plain) if self.normalize_whitespace else plain

    def _of_letters(self, text: str) -> str:
        made = text if self.unicode == "none" else normalized(self.unicode, text)
        if self.case_sensitive:
            return made
        folded = made.casefold()
        # Folding may take apart what was one letter: the capital I with a dot becomes i and a combining dot.
        return folded if self.unicode == "none" else normalized(self.unicode, folded)


def _well_spaced(plain: str) -> str:
    """Return an ASCII text with one blank between words; looking for what must be mended takes half of `split`."""
    if any(map(plain.__contains__, _OTHER_BLANKS)):
        plain = plain.translate(_BLANKS)
    if "  " in plain or plain.startswith(" ") or plain.endswith(" "):
        return " ".join(plain.split())
    return plain
