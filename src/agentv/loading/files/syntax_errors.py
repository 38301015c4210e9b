"""Readable messages, with positions, for the errors of libyaml."""

import yaml
from yaml.reader import ReaderError

from agentv.loading.files.documents import Mark
from agentv.types.problems import Problem

# Part of libyaml's wording, our message, and advice.
_SENTENCES: tuple[tuple[str, str, str | None], ...] = (
    ("block sequence entries are not allowed", "'- ' is not allowed here", "start the list on a new line"),
    ("mapping keys are not allowed", "'? ' is not allowed here", "put text that starts with '?' in quotes"),
    ("found unexpected ':'", "unexpected ':' in a string", "put the string in quotes"),
    ("tab character", "a tab where spaces are required", "indent with spaces"),
    (
        "mapping values are not allowed",
        "unexpected ':' where no key is allowed",
        "check the indentation; quote text that contains ': '",
    ),
    (
        "expected ',' or ']'",
        "a list that starts with '[' is not closed",
        "add ',' between its items and ']' at its end",
    ),
    (
        "expected ',' or '}'",
        "an object that starts with '{' is not closed",
        "add ',' between its entries and '}' at its end",
    ),
    ("unexpected end of stream", "a quoted string is not closed", "add the closing quote"),
    ("expected '-' indicator", "an item of this list does not start with '-'", "check the indentation"),
    ("did not find expected key", "this line does not fit here", "check its indentation, and quotes before it"),
    ("unknown escape character", "'\\' starts an unknown escape sequence", "use single quotes, or write '\\\\'"),
    ("expected hexdecimal number", "this escape needs hexadecimal digits", "use single quotes, or write '\\\\'"),
    ("invalid Unicode character escape", "this '\\u' escape is not a character", "write the character itself"),
    ("could not find expected ':'", "a key without ':'", "write 'key: value'"),
    (
        "expected <document start>",
        "unexpected text after the end of the document",
        "check its indentation, and quotes before it",
    ),
    ("expected node content", "a value is missing here", None),
    (
        "expected alphabetic or numeric",
        "a name must follow '*' and '&'",
        "put text that starts with '*' or '&' in quotes",
    ),
    ("undefined tag handle", "tags are not supported", "put text that starts with '!' in quotes"),
    ("a tag", "tags are not supported", "put text that starts with '!' in quotes"),
    ("directive", "a line starts with '%', but directives are not supported", "put the string in quotes"),
    ("block scalar", "the text after '|' or '>' is not indented correctly", "indent all its lines equally"),
)


def syntax_problem(error: yaml.YAMLError | UnicodeEncodeError, text: str, path: str) -> Problem:
    """Return the problem, with its position, for an error of the parser."""
    if isinstance(error, ReaderError):
        place = place_of(text, error.position)
        return Problem(path, f"the control character U+{int(error.character):04X} is not allowed in YAML", *place)
    if isinstance(error, UnicodeEncodeError):
        return Problem(path, "half of a surrogate pair is not a character", *place_of(text, error.start))
    mark = getattr(error, "problem_mark", None)
    if mark is not None and "cannot start any token" in str(error):
        return _odd_start(text, path, Mark(mark.line + 1, mark.column + 1))
    wording = f"{getattr(error, 'problem', None) or error} {getattr(error, 'context', None) or ''}"
    message, allowed = _sentence(wording)
    # A value that is not closed is reported where it starts, since the fault is there.
    if "not closed" in message and getattr(error, "context_mark", None) is not None:
        mark = getattr(error, "context_mark", None)
    place = Mark(mark.line + 1, mark.column + 1) if mark is not None else Mark(1, 1)
    return Problem(path, message, *place, allowed=allowed)


def _odd_start(text: str, path: str, place: Mark) -> Problem:
    """Return the problem of a character that cannot start a value, most often a tab."""
    character = text.split("\n")[place.line - 1][place.column - 1 : place.column]
    if character == "\t":
        return Problem(path, "a tab where spaces are required", *place, allowed="indent with spaces")
    message = f"the character {character!r} cannot start a value"
    return Problem(path, message, *place, allowed="put the string in quotes")


def _sentence(wording: str) -> tuple[str, str | None]:
    for part, message, allowed in _SENTENCES:
        if part in wording:
            return message, allowed
    return f"not valid YAML ({wording.strip()})", None


def place_of(text: str, offset: int) -> Mark:
    """Return the line and column of a character."""
    before = text[:offset]
    return Mark(before.count("\n") + 1, offset - (before.rfind("\n") + 1) + 1)
