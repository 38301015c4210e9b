"""A YAML file → a reader over its document."""

from pathlib import Path

from agentv.loading.files.composer import compose
from agentv.loading.files.text import decode, read_bytes, shown
from agentv.loading.models.reader import Reader
from agentv.types.errors import EvalFileError


def open_yaml(path: Path, data: bytes | None = None) -> Reader:
    """Return a reader of a YAML file whose content is an object or list. `data` spares reading the bytes again.

    Raises EvalFileError when the file cannot be read or is no YAML.
    """
    name = shown(path)
    text = decode(read_bytes(path) if data is None else data, name)
    document, problems = compose(text, name)
    if document is None:
        raise EvalFileError(name, problems)
    return Reader(document, problems)
