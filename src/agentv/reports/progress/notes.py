"""The notes that a display prints as they come; the report at the end has the others, so that each is printed once."""

from msgspec import Struct, field

from agentv.types.events import RowBegun, RowFinished, RunEvent, RunNote


class ShownNotes(Struct):
    """The notes that a display has printed: those before the first call, problems, and urgent ones."""

    messages: set[str] = field(default_factory=set)
    has_begun: bool = False
    """True from the first call on."""

    def shows(self, event: RunEvent) -> bool:
        """Take an event into account; return True if it is a note to print now."""
        if type(event) is RowBegun or type(event) is RowFinished:
            self.has_begun = True
        if type(event) is not RunNote or (self.has_begun and not event.is_problem and not event.is_urgent):
            return False
        self.messages.add(event.message)
        return True
