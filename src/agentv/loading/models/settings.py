"""A plug-in's settings: its frozen dataclass → the strict shape of what people write, and back to an instance.

A dataclass may refuse values of its own in `__post_init__` by raising ValueError with a plain sentence; when the
sentence starts with a setting's name, the problem is shown at that setting. It may have a method
`files(base_dir: str) -> tuple[str, ...]` that returns the files it names: those are looked for before a run. When they
are there, a method `problems(base_dir: str) -> tuple[Problem, ...]` is asked what is wrong inside them. A field
that is a list of objects may say in its metadata that `nested` keys of each may stand under another key (the PRD's
rules keep theirs under `config`), and any field may give `aliases` of its key and `spellings` of its values, as others
write them.
"""

from collections.abc import Mapping
from functools import partial
from pathlib import Path

from agentv.loading.files.documents import Document, JsonPath
from agentv.loading.models.core_schema import reader_of
from agentv.loading.models.file_model import Names
from agentv.loading.models.reader import Reader
from agentv.registry import Spec
from agentv.types.errors import EvalFileError, PluginError
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.problems import Problem


def read_settings(spec: Spec, raw: Mapping[str, JsonValue], *, where: str) -> object:
    """Return a plug-in's settings as its typed dataclass. Raises EvalFileError with every problem.

    `where` is what messages call the place: a file, or words such as "evaluator 'tone'".
    """
    reader = Reader(Document(where, dict(raw)))
    made = validate_settings(reader, spec.load_settings(), raw, ())
    if made is None:
        raise EvalFileError(where, reader.problems)
    return made


def settings_type(reader: Reader, at: JsonPath, spec: Spec) -> type | None:
    """Return a plug-in's settings dataclass; None when the plug-in cannot be loaded, which is noted at `at`."""
    try:
        return spec.load_settings()
    except PluginError as error:
        reader.error(at, str(error))
        return None


def validate_settings(
    reader: Reader, settings: type, raw: JsonObject, at: JsonPath, *, beside: Names | None = None
) -> object | None:
    """Return the typed settings for `raw`, which stands at `at`, or None when there are problems, which are noted.

    `beside` are the names of keys that stand in the same object and are read apart.
    """
    return reader.validate(partial(reader_of(settings), raw), raw, at, beside=beside)


def named_files(settings: object, base_dir: str) -> tuple[str, ...]:
    """Return the files that an evaluator's settings depend on, as absolute paths; they must exist.

    A settings class tells them by a method `files(base_dir)`, which it may have.
    """
    files = getattr(settings, "files", None)
    return tuple(files(base_dir)) if callable(files) else ()


def missing_files(settings: object, base_dir: str) -> tuple[str, ...]:
    """Return those of the named files that do not exist."""
    return tuple(path for path in named_files(settings, base_dir) if not Path(path).is_file())


def criteria_named_by(settings: object) -> tuple[str | None, ...] | None:
    """Return the criteria that an evaluator's settings name; None when only its results will tell.

    Settings tell by a field `criteria`, whose names may be filled in, or by a method of that name, where None among
    the names stands for the evaluator's own criterion. An object has no settings, and tells nothing.
    """
    if settings is None:
        return None
    own = getattr(settings, "criteria", ())
    named = own() if callable(own) else own
    return None if named is None else tuple(named)


def content_problems(settings: object, base_dir: str) -> tuple[Problem, ...]:
    """Return what is wrong inside the files that settings name; nothing while one of them is missing.

    A settings class tells it by a method `problems(base_dir)`, which it may have.
    """
    problems = getattr(settings, "problems", None)
    if not callable(problems) or missing_files(settings, base_dir):
        return ()
    try:
        return tuple(problems(base_dir))
    except OSError as error:
        return (Problem(str(error.filename), f"cannot be read: {error.strerror}"),)
