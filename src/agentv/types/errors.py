"""The public exceptions of agentv; internal ones are defined in the modules that raise them.

AgentvError
├── ConfigError (ValueError)
│   ├── EvalFileError     one or more located problems of files
│   ├── NothingFoundError no eval file, or no such case
│   ├── TargetError       a target that cannot be used
│   ├── TemplateError     a placeholder or reference that cannot be filled
│   └── UnknownNameError (LookupError)
├── PluginError           a plug-in that cannot be used
│   └── MissingExtraError (ImportError)   an optional package is not installed
├── ProviderError (RuntimeError)   a target did not answer; carries a Failure
├── MessageError (ValueError)      a message that cannot be read, with its place
├── EvaluatorError (RuntimeError)  an evaluator could not judge; carries a Failure
├── JudgeUnavailable (RuntimeError) a check in a test could not be judged
├── ClusterError (RuntimeError)    the machines of a run cannot be used
├── QuotaError (ConnectionError)   a shared quota does not answer
└── StorageError (OSError)         results could not be stored or read
"""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # keeps the start of `agentv --help` fast
    from agentv.types.failures import FailureKind
    from agentv.types.problems import Problem


class AgentvError(Exception):
    """Base class of all errors that agentv raises on purpose."""


class ConfigError(AgentvError, ValueError):
    """A file, option or argument that cannot be used as written."""


class EvalFileError(ConfigError):
    """Problems in files; `problems` holds all of them, not only the first."""

    def __init__(self, path: str, problems: "Sequence[Problem]") -> None:
        self.path = path
        self.problems = tuple(problems)
        super().__init__("\n".join(problem.render() for problem in self.problems))


class NothingFoundError(ConfigError):
    """There is no eval file to read, or no case to select."""


class TargetError(ConfigError):
    """A target that cannot be used: unknown, incomplete, or not installed."""


class TemplateError(ConfigError):
    """A template that cannot be filled."""


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that `name` most likely means, or None, ignoring case."""
    from difflib import get_close_matches  # noqa: PLC0415 - needed only for a mistake

    by_letters = {each.casefold(): each for each in known}
    return next((by_letters[each] for each in get_close_matches(name.casefold(), by_letters, n=1)), None)


class UnknownNameError(ConfigError, LookupError):
    """An unknown name; the message lists the known names and suggests the nearest one, which may be an alias.

    `what` is the kind of name in the message, such as `evaluator`.
    """

    def __init__(self, what: str, name: str, *, known: Iterable[str], aliases: Iterable[str] = ()) -> None:
        self.what = what
        self.name = name
        self.known = tuple(sorted(known))
        self.suggestion = nearest(name, (*self.known, *aliases))
        hint = f" Did you mean {self.suggestion!r}?" if self.suggestion else ""
        super().__init__(f"unknown {what} {name!r}; known: {', '.join(self.known) or 'none'}.{hint}")

    def __str__(self) -> str:
        """Return the message unchanged."""
        return str(self.args[0])


class PluginError(AgentvError):
    """A plug-in that cannot be imported or violates its contract."""


class MissingExtraError(PluginError, ImportError):
    """A feature whose optional packages are not installed. `then` is a second command that is needed as well."""

    def __init__(self, feature: str, extra: str, *, then: str | None = None) -> None:
        self.extra = extra
        commands = f"pip install 'agentv[{extra}]'{f' && {then}' if then else ''}"
        super().__init__(f"{feature} needs optional packages; install them with: {commands}")


class MessageError(AgentvError, ValueError):
    """A message that cannot be read; `at` is its place, as in `output_messages[2].content[0]`."""

    def __init__(self, at: str, what: str, advice: str | None = None) -> None:
        self.at = at
        self.what = what
        self.advice = advice
        super().__init__(f"{at} {what}{f'; {advice}' if advice else ''}")


class EvaluatorError(AgentvError, RuntimeError):
    """An evaluator could not judge. This never counts as a judgement of the answer."""

    def __init__(self, message: str, *, kind: "FailureKind" = "evaluator_error") -> None:
        from agentv.types.failures import Failure  # noqa: PLC0415 - keeps the start of `agentv --help` fast

        self.failure = Failure(kind=kind, message=message, stage="evaluator")
        super().__init__(message)


class JudgeUnavailable(AgentvError, RuntimeError):  # noqa: N818 - the name that users write
    """A check in a test could not be judged, because an evaluator or its judge failed. The answer may be right."""

    agentv_kind = "judge"


class StorageError(AgentvError, OSError):
    """Results could not be stored or read."""

    def __str__(self) -> str:
        """Return the message unchanged, even if `errno` and `strerror` are set."""
        return str(self.args[0]) if self.args else ""


class ClusterError(AgentvError, RuntimeError):
    """The machines of a run cannot be used, or none of them is left."""


class QuotaError(AgentvError, ConnectionError):
    """A shared quota does not answer, so no call may be made."""

    def __str__(self) -> str:
        """Return the message unchanged, even if `errno` and `strerror` are set."""
        return str(self.args[0]) if self.args else ""
