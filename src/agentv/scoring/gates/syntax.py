"""The syntax of gates. Errors point at the column and say what is allowed there.

gate     = metric operator number ["%"] ["with 95%"]
metric   = name [ "(" argument ")" ] [ "." name ]
argument = '"' characters '"' | characters other than brackets
"""

import re

from msgspec import Struct

from agentv.types.errors import ConfigError

OPERATORS = (">=", "<=", "==", "!=", ">", "<")
EXAMPLES = "'pass_rate >= 90%', 'mean >= 0.8' or 'evaluator(tone).mean >= 0.7'"

_NAME = r"[A-Za-z_][A-Za-z_0-9]*"
_NUMBER = r"-?(?:\d+(?:\.\d*)?|\.\d+)"
_SWAPPED = {"=>": ">=", "=<": "<=", "=": "==", "≥": ">=", "≤": "<="}
_WORD = re.compile(r"[=<>!≥≤]+|[^\s()=<>!≥≤]+|\S")
_SPACE = re.compile(r"\s*")


class GateError(ConfigError):
    """An unusable gate. `column` counts from 1; `what` says what is wrong there."""

    def __init__(self, expression: str, column: int, what: str) -> None:
        self.expression = expression
        self.column = column
        self.what = what
        shown = "".join(each if each.isprintable() else " " for each in expression)
        super().__init__(f"gate {expression!r}, column {column}: {what}\n    {shown}\n    {' ' * (column - 1)}^")

    @property
    def line(self) -> str:
        """The message without the expression and marker, for callers that show the position themselves."""
        return str(self).splitlines()[0]


class Part(Struct, frozen=True):
    """A part of an expression and the column where it begins, from 1."""

    text: str
    column: int


class WrittenGate(Struct, frozen=True):
    """A gate as written, before its metric is looked up."""

    name: Part
    argument: Part | None
    field: Part | None
    operator: Part
    number: Part
    is_percent: bool
    level: Part | None


def read_gate(expression: str) -> WrittenGate:
    """Return the parts of an expression. Raises GateError at the first unexpected character."""
    reader = _Reader(expression)
    name = reader.need(_NAME, f"a metric, for instance {EXAMPLES}")
    argument = reader.argument()
    field = reader.need(_NAME, "what to measure, as in evaluator(tone).mean") if reader.take(r"\.") else None
    operator = reader.need("|".join(OPERATORS), f"one of {' '.join(OPERATORS)}")
    number = reader.need(_NUMBER, "a number, as in 0.8 or 90%")
    is_percent = reader.take("%") is not None
    level = reader.need(r"95\s*%", "95%: intervals are those of 95 %") if reader.take(r"with\b") else None
    reader.end()
    return WrittenGate(
        name=name, argument=argument, field=field, operator=operator, number=number, is_percent=is_percent, level=level
    )


class _Reader:
    """A scanner that reads an expression from left to right and ignores space between parts."""

    def __init__(self, expression: str) -> None:
        self._text = expression
        self._at = 0

    def take(self, pattern: str) -> Part | None:
        """Return what matches at this position and move past it, None when nothing does."""
        self._skip_space()
        match = re.compile(pattern).match(self._text, self._at)
        if match is None:
            return None
        self._at = match.end()
        return Part(match[0], match.start() + 1)

    def need(self, pattern: str, wanted: str) -> Part:
        """Return what matches at this position. Raises GateError when nothing does."""
        found = self.take(pattern)
        if found is None:
            raise self._wrong(wanted)
        return found

    def argument(self) -> Part | None:
        """Return the argument in brackets, without the brackets and its quotes."""
        if self.take(r"\(") is None:
            return None
        quoted = self.take(r'"[^"]*"')
        found = quoted or self.need(r"[^()]*", "a name")
        self.need(r"\)", "the closing bracket; a name with brackets stands in double quotes")
        return Part(found.text[1:-1] if quoted else found.text.rstrip(), found.column)

    def end(self) -> None:
        """Raise GateError when anything is left."""
        self._skip_space()
        if self._at < len(self._text):
            raise self._wrong("the end, or 'with 95%'")

    def _skip_space(self) -> None:
        space = _SPACE.match(self._text, self._at)
        self._at = space.end() if space else self._at

    def _wrong(self, wanted: str) -> GateError:
        self._skip_space()
        word = _WORD.match(self._text, self._at)
        found = repr(word[0]) if word else "the end"
        meant = _SWAPPED.get(word[0]) if word else None
        hint = f". Did you mean {meant!r}?" if meant else ""
        return GateError(self._text, self._at + 1, f"expected {wanted}; found {found}{hint}")
