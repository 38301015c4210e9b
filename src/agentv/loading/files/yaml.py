"""Opening of YAML files for reading with models."""

from pathlib import Path

from agentv.loading.files.composer import compose
from agentv.loading.files.text import decode, read_bytes, shown
from agentv.loading.models.reader import Reader
from agentv.types.errors import EvalFileError


def open_yaml(path: Path, data: bytes | None = None) -> Reader:
    """Return a reader of a YAML file whose content is an object or list. `data`, if given, are the file's bytes.

    Raises EvalFileError when the file cannot be read or is not YAML.
    """
    name = shown(path)
    text = decode(read_bytes(path) if data is None else data, name)
    document, problems = compose(text, name)
    if document is None:
        raise EvalFileError(name, problems)
    return Reader(document, problems)
