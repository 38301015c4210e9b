"""Validation of a plug-in's settings: a raw object is checked and becomes an instance of the settings class.

A settings class may reject values in `__post_init__` by raising ValueError with a plain message; if the message starts
with the name of a setting, the problem is reported at that setting. It may have a method
`files(base_dir: str) -> tuple[str, ...]` that returns the files it reads, and `code_files` for those it runs; all must
exist before a run, and files that evaluators of an eval file read must lie inside the project. If they do, a method
`problems(base_dir: str) -> tuple[Problem, ...]` may return the problems of their content. The metadata of a field may
have `aliases` of its key and `spellings` of its values; `instead` with advice on keys of other tools that are used in
its place; and, for a list, in `nested` the key (such as `config`) under which an item may put its settings.
"""

from collections.abc import Collection, Mapping
from functools import partial
from pathlib import Path

from agentv.loading.files.documents import Document, JsonPath
from agentv.loading.files.places import is_file_path
from agentv.loading.models.core_schema import reader_of
from agentv.loading.models.file_model import Names
from agentv.loading.models.reader import Reader
from agentv.registry import Spec
from agentv.types.errors import EvalFileError, PluginError
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.problems import Problem


def read_settings(spec: Spec, raw: Mapping[str, JsonValue], *, where: str) -> object:
    """Return a plug-in's settings as an instance of its settings class. Raises EvalFileError with all problems.

    `where` is the name of the source in messages: a file, or words such as "evaluator 'tone'".
    """
    reader = Reader(Document(where, dict(raw)))
    settings = validate_settings(reader, load_settings(spec), raw, ())
    if settings is None:
        raise EvalFileError(where, reader.problems)
    return settings


def load_settings(spec: Spec) -> type:
    """Return a plug-in's settings class. Raises PluginError, also for fields whose types cannot be read."""
    settings = spec.load_settings()
    try:
        reader_of(settings)
    except TypeError as error:
        raise PluginError(f"{spec.name}: the settings class {settings.__name__} cannot be used: {error}") from error
    return settings


def settings_type(reader: Reader, at: JsonPath, spec: Spec) -> type | None:
    """Return a plug-in's settings class; if it cannot be loaded, record a problem at `at` and return None."""
    try:
        return load_settings(spec)
    except PluginError as error:
        reader.error(at, str(error))
        return None


def validate_settings(
    reader: Reader, settings: type, raw: JsonObject, at: JsonPath, *, other_names: Names | None = None
) -> object | None:
    """Return the typed settings for `raw`, the value at `at`; record its problems and return None if it has any.

    `other_names` are the names of the other keys in the same object, which are read separately.
    """
    return reader.validate(partial(reader_of(settings), raw), raw, at, other_names=other_names)


def named_files(settings: object, base_dir: str) -> tuple[str, ...]:
    """Return the files that an evaluator's settings depend on, as absolute paths; they must exist.

    They are the files that it reads, and those that it runs.
    """
    return (*data_files(settings, base_dir), *_files(settings, "code_files", base_dir))


def data_files(settings: object, base_dir: str) -> tuple[str, ...]:
    """Return the files that an evaluator reads, from the optional method `files(base_dir)` of its settings class."""
    return _files(settings, "files", base_dir)


def _files(settings: object, method: str, base_dir: str) -> tuple[str, ...]:
    files = getattr(settings, method, None)
    return tuple(files(base_dir)) if callable(files) else ()


def missing_files(settings: object, base_dir: str) -> tuple[str, ...]:
    """Return the named files that do not exist."""
    return tuple(path for path in named_files(settings, base_dir) if not is_file_path(Path(path)))


def criteria_named_by(settings: object) -> tuple[str | None, ...] | None:
    """Return the criteria that an evaluator's settings name; None if they are known only from its results.

    They come from a field `criteria`, or from a method of that name. None inside the tuple stands for the evaluator's
    own criterion. An evaluator object has no settings, so the result is None.
    """
    if settings is None:
        return None
    own = getattr(settings, "criteria", ())
    named = own() if callable(own) else own
    return None if named is None else tuple(named)


def wrong_settings(settings: object, base_dir: str) -> tuple[tuple[tuple[str, ...], str], ...]:
    """Return the problems of single settings, each with the path of its setting.

    They come from the optional method `wrong_settings(base_dir)` of the settings class.
    """
    found = getattr(settings, "wrong_settings", None)
    return tuple(found(base_dir)) if callable(found) else ()


def content_problems(settings: object, base_dir: str) -> tuple[Problem, ...]:
    """Return the problems of the content of the files that settings name; none while a file is missing.

    They come from the optional method `problems(base_dir)` of the settings class.
    """
    problems = getattr(settings, "problems", None)
    if not callable(problems) or missing_files(settings, base_dir):
        return ()
    try:
        return tuple(problems(base_dir))
    except OSError as error:
        return (Problem(str(error.filename), f"cannot be read: {error.strerror}"),)


def unmatched_labels(settings: object, base_dir: str, names: Collection[str], *, suite: str) -> tuple[Problem, ...]:
    """Return a warning for each label in the files of an evaluator that is for none of the cases.

    They come from the optional method `unmatched_labels(base_dir, names, suite)` of the settings class; `names` are the
    ids of the cases of `suite` and of their sessions.
    """
    unmatched = getattr(settings, "unmatched_labels", None)
    if not callable(unmatched) or missing_files(settings, base_dir):
        return ()
    return tuple(unmatched(base_dir, names, suite))
