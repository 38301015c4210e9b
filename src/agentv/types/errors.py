"""Every exception agentv raises.

AgentvError
├── ConfigError (ValueError)
│   ├── EvalFileError     one or more located problems of files
│   ├── TargetError       a target that cannot be used
│   ├── TemplateError     a placeholder or reference that cannot be filled
│   └── UnknownNameError (LookupError)
├── PluginError
│   └── MissingExtraError (ImportError)
├── ProviderError (RuntimeError)   a target did not answer; carries a Failure
├── EvaluatorError (RuntimeError)  an evaluator could not judge; carries a Failure
└── StorageError (OSError)
"""

import difflib
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # `agentv --help` shows errors, and pays for no class of values
    from agentv.types.failures import Failure, FailureKind
    from agentv.types.problems import Problem
    from agentv.types.provider import CallRecord


class AgentvError(Exception):
    """The root of every error that agentv raises on purpose."""


class ConfigError(AgentvError, ValueError):
    """Something a person wrote (file, option, argument) cannot be used as it stands."""


class EvalFileError(ConfigError):
    """Files with problems; `problems` holds all of them, not the first."""

    def __init__(self, path: str, problems: "Sequence[Problem]") -> None:
        self.path = path
        self.problems = tuple(problems)
        super().__init__("\n".join(problem.render() for problem in self.problems))


class TargetError(ConfigError):
    """A target that cannot be used: unknown, incomplete, or not installed."""


class TemplateError(ConfigError):
    """A template that cannot be filled."""


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that `name` most likely meant, or None; capitals are no difference."""
    by_letters = {each.casefold(): each for each in known}
    return next((by_letters[each] for each in difflib.get_close_matches(name.casefold(), by_letters, n=1)), None)


class UnknownNameError(ConfigError, LookupError):
    """A name nobody registered; says what is known and what was probably meant, which may be an alias."""

    def __init__(self, what: str, name: str, *, known: Iterable[str], aliases: Iterable[str] = ()) -> None:
        self.what = what
        self.name = name
        self.known = tuple(sorted(known))
        self.suggestion = nearest(name, (*self.known, *aliases))
        hint = f" Did you mean {self.suggestion!r}?" if self.suggestion else ""
        super().__init__(f"unknown {what} {name!r}; known: {', '.join(self.known) or 'none'}.{hint}")

    def __str__(self) -> str:
        """Return the message as composed; LookupError's own form would quote it."""
        return str(self.args[0])


class PluginError(AgentvError):
    """A plug-in that cannot be imported or does not keep its contract."""


class MissingExtraError(PluginError, ImportError):
    """A feature whose optional packages are not installed. `then` is a second command that is needed as well."""

    def __init__(self, feature: str, extra: str, *, then: str | None = None) -> None:
        self.extra = extra
        commands = f"pip install 'agentv[{extra}]'{f' && {then}' if then else ''}"
        super().__init__(f"{feature} needs optional packages; install them with: {commands}")


class ProviderError(AgentvError, RuntimeError):
    """A target did not answer. `failure` says why, in one of the closed list of kinds; `calls` are the tries made."""

    def __init__(self, failure: "Failure", *, calls: "tuple[CallRecord, ...]" = ()) -> None:
        self.failure = failure
        self.calls = calls
        super().__init__(failure.message)


class EvaluatorError(AgentvError, RuntimeError):
    """An evaluator could not judge. This is never a judgement of the answer."""

    def __init__(self, message: str, *, kind: "FailureKind" = "evaluator_error") -> None:
        from agentv.types.failures import Failure  # noqa: PLC0415 - as above

        self.failure = Failure(kind=kind, message=message, stage="evaluator")
        super().__init__(message)


class StorageError(AgentvError, OSError):
    """Results could not be kept or read."""

    def __str__(self) -> str:
        """Return the message as given; OSError's own form would show errno."""
        return str(self.args[0]) if self.args else ""
