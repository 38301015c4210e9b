"""What a user should know of the logs that a command read, besides its answers."""

from collections.abc import Iterable, Iterator
from typing import Literal, TypeAlias

from msgspec import Struct

NoteKind: TypeAlias = Literal["fact", "left out"]


class InputNote(Struct, frozen=True):
    """One thing to know of the input, such as answers that were left out.

    The text of a note of the kind `left out` goes on after words such as "not scored, ".
    """

    text: str
    kind: NoteKind = "fact"

    def worded(self, left_out: str) -> str:
        """Return the whole text; `left_out` is what the command says of an answer that it leaves out."""
        return f"{left_out}, {self.text}" if self.kind == "left out" else self.text


def word_notes(notes: Iterable[InputNote], *, left_out: str) -> Iterator[str]:
    """Yield the texts of notes in the words of a command."""
    return (note.worded(left_out) for note in notes)


def left_out(text: str) -> InputNote:
    """Return the note that something was left out, from its reason and number."""
    return InputNote(text, "left out")
