"""Settings of promptfoo's providers as settings of targets, without the secrets that they have in plain text."""

import re
from collections.abc import Mapping

from agentv.loading.importers.located import Located
from agentv.loading.importers.promptfoo.templates import with_environment
from agentv.templating.secrets import has_secret_prefix, looks_secret, secrets_in_urls
from agentv.types.json_value import JsonValue

_SCHEME = re.compile(r"((?:bearer|basic|token|apikey)\s+)?(.+)", re.IGNORECASE | re.DOTALL)
_ADVICE = "set this variable; secrets do not belong into files"


def setting(place: Located, name: str = "", *, advice: str = _ADVICE) -> JsonValue:
    """Return a setting with `{{ env.NAME }}` as `${{ NAME }}`; a secret in plain text becomes a variable, recorded.

    A text is a secret if its key, or the option before it in a list, looks so, or if it starts like a known key.
    """
    value = place.value
    name = name or str(place.at[-1] if place.at else "")
    if isinstance(value, Mapping):
        return {key: setting(item, advice=advice) for key, item in place.entries()}
    if isinstance(value, list | tuple):
        options = ("", *(item if isinstance(item, str) and item.startswith("-") else "" for item in value))
        return [setting(place.get(index), options[index] or name, advice=advice) for index in range(len(value))]
    if not isinstance(value, str) or "{{" in value:
        return with_environment(value, place)
    found = _SCHEME.fullmatch(value)
    if found is None or not (looks_secret(name) or has_secret_prefix(found[2])):
        return with_environment(url_without_secrets(value, place, advice), place)
    variable = re.sub(r"\W+", "_", name).strip("_").upper()
    made = f"{found[1] or ''}${{{{ {variable} }}}}"
    place.lose(f"`{name}` is a secret in plain text; it becomes {made}", advice)
    return made


def url_without_secrets(text: str, place: Located, advice: str = _ADVICE) -> str:
    """Return a text with a variable for the secrets of its URLs, user-info and keys in the query, which is recorded."""
    for secret in sorted(set(secrets_in_urls(text)), key=len, reverse=True):
        if secret in text:
            text = text.replace(secret, f"{_OF_URL}@" if secret.endswith("@") else _OF_URL)
            place.lose(f"a URL has a secret in plain text; it becomes {_OF_URL}", advice)
    return text


_OF_URL = "${{ URL_SECRET }}"


def settings_by_name(place: Located) -> dict[str, JsonValue]:
    """Return an object of settings, such as headers, as `setting` does; anything else is recorded."""
    made = setting(place)
    if isinstance(made, dict):
        return made
    if place.value is not None:
        place.lose(f"`{place.at[-1]}` is not an object; it is not carried over")
    return {}


def named(key: str, value: JsonValue) -> dict[str, JsonValue]:
    """Return an object with a setting, {} for one without a value."""
    return {key: value} if value else {}
