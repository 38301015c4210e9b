"""`.agentv/config.yaml` of AgentV 1.5 to 4.42, translated into the keys of `.agentv.yaml`."""

from collections.abc import Mapping

from agentv.loading.files.documents import Document
from agentv.loading.importers.translation import Translation
from agentv.loading.models.file_model import Names
from agentv.types.errors import nearest

_IGNORED = ("$schema", "required_version", "requiredVersion", "execution", "results", "projects", "dashboard")
_LOST = {"hooks": "AgentV's `hooks` of a project do not run here; a workspace has `setup` and `teardown`"}


def translate_config(document: Document, names: Names) -> Translation | None:
    """Return the translation of a configuration; None for one without any key of AgentV alone.

    `names` are the keys of ours. In a file of AgentV, an unknown key is a warning.
    """
    raw = document.value
    if not isinstance(raw, Mapping) or raw.keys().isdisjoint((*_IGNORED, *_LOST)):
        return None
    translation = Translation(document)
    translation.ignore((), *_IGNORED)
    translation.lose_any((), _LOST)
    for key in [key for key in translation.entries(()) if names.of(key) is None]:
        near = nearest(key, names.spellings)
        hint = f"did you mean {near!r}?" if near else None
        translation.lose((key,), f"{key!r} is no key of AgentV's configuration, and has no effect", hint)
    return translation
