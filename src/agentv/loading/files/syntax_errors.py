"""What libyaml says about broken YAML → located sentences for people."""

import yaml
from yaml.reader import ReaderError

from agentv.loading.files.documents import Mark
from agentv.types.problems import Problem

# Part of libyaml's wording → what is wrong, what to do.
_SENTENCES: tuple[tuple[str, str, str | None], ...] = (
    ("block sequence entries are not allowed", "a '- ' cannot stand here", "start the list on a line of its own"),
    ("mapping keys are not allowed", "a '? ' cannot stand here", "put text that starts with '?' in quotes"),
    ("found unexpected ':'", "a ':' stands inside a text", "put the text in quotes"),
    ("tab character", "a tab stands where spaces are needed", "indent with spaces"),
    (
        "mapping values are not allowed",
        "a ':' stands where no key can be",
        "check the indentation; quote text with ': '",
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
    ("unexpected end of stream", "a quoted text is not closed", "add the closing quote"),
    ("expected '-' indicator", "an item of this list does not start with '-'", "check the indentation"),
    ("did not find expected key", "this line does not fit in here", "check its indentation, and quotes before it"),
    ("unknown escape character", "this '\\' starts no known escape", "use single quotes, or write '\\\\'"),
    ("expected hexdecimal number", "this escape needs hexadecimal digits", "use single quotes, or write '\\\\'"),
    ("invalid Unicode character escape", "this '\\u' escape is no character", "write the character itself"),
    ("could not find expected ':'", "a key without ':'", "write 'key: value'"),
    (
        "expected <document start>",
        "something follows the end of the document",
        "check its indentation, and quotes before it",
    ),
    ("expected node content", "a value is missing here", None),
    (
        "expected alphabetic or numeric",
        "a name must follow '*' and '&'",
        "put text that starts with '*' or '&' in quotes",
    ),
    ("undefined tag handle", "tags are not used here", "put text that starts with '!' in quotes"),
    ("a tag", "tags are not used here", "put text that starts with '!' in quotes"),
    ("directive", "a line that starts with '%' is no directive that is known here", "put the text in quotes"),
    ("block scalar", "the text after '|' or '>' is not indented rightly", "indent all its lines alike"),
)


def syntax_problem(error: yaml.YAMLError | UnicodeEncodeError, text: str, path: str) -> Problem:
    """Return the located problem for an error of the parser."""
    if isinstance(error, ReaderError):
        place = place_of(text, error.position)
        return Problem(path, f"the control character U+{int(error.character):04X} cannot stand in YAML", *place)
    if isinstance(error, UnicodeEncodeError):
        return Problem(path, "half of a surrogate pair is no character", *place_of(text, error.start))
    mark = getattr(error, "problem_mark", None)
    if mark is not None and "cannot start any token" in str(error):
        return _odd_start(text, path, Mark(mark.line + 1, mark.column + 1))
    wording = f"{getattr(error, 'problem', None) or error} {getattr(error, 'context', None) or ''}"
    message, allowed = _sentence(wording)
    # Something that is not closed is reported where it starts: that is where one has to look.
    if "not closed" in message and getattr(error, "context_mark", None) is not None:
        mark = getattr(error, "context_mark", None)
    place = Mark(mark.line + 1, mark.column + 1) if mark is not None else Mark(1, 1)
    return Problem(path, message, *place, allowed=allowed)


def _odd_start(text: str, path: str, place: Mark) -> Problem:
    """Return the problem of a character that no value can start with: most often a tab."""
    character = text.split("\n")[place.line - 1][place.column - 1 : place.column]
    if character == "\t":
        return Problem(path, "a tab stands where spaces are needed", *place, allowed="indent with spaces")
    message = f"the character {character!r} cannot start a value"
    return Problem(path, message, *place, allowed="put the text in quotes")


def _sentence(wording: str) -> tuple[str, str | None]:
    for part, message, allowed in _SENTENCES:
        if part in wording:
            return message, allowed
    return f"this is no valid YAML ({wording.strip()})", None


def place_of(text: str, offset: int) -> Mark:
    """Return line and column of a character."""
    before = text[:offset]
    return Mark(before.count("\n") + 1, offset - (before.rfind("\n") + 1) + 1)
