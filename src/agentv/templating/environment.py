"""`${{ NAME }}`: references to environment variables in strings. Pure: the variables are an argument."""

import re
from collections.abc import Mapping

from agentv.types.errors import TemplateError

REFERENCE = re.compile(r"\$\{\{\s*([A-Za-z_][A-Za-z0-9_]*)\s*\}\}")


def has_reference(text: str) -> bool:
    """Return True if a string contains a reference, well formed or not."""
    return "${{" in text


def is_reference(text: str) -> bool:
    """Return True if a string is exactly one reference."""
    return REFERENCE.fullmatch(text.strip()) is not None


def variables_in(text: str) -> tuple[str, ...]:
    """Return the variables that a string refers to, in order. Raises TemplateError for a malformed reference."""
    malformed = REFERENCE.sub("", text).find("${{")
    if malformed >= 0:
        raise TemplateError("'${{' is not a valid reference; write ${{ NAME }}, with letters, digits and _ in the name")
    return tuple(REFERENCE.findall(text))


def fill_variables(text: str, values: Mapping[str, str]) -> str:
    """Replace every reference by its value, which is not expanded again. Raises KeyError for an unset variable."""
    return REFERENCE.sub(lambda match: values[match[1]], text)
