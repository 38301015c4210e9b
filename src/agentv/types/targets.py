"""Targets as written and as resolved, and their rules for retries."""

import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from msgspec import Struct, StructMeta, field

from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.messages_json import compact_json
from agentv.types.usage import Price

DEFAULT_RETRY_STATUSES = (408, 429, 500, 502, 503, 504, 529)


Unsigned: TypeAlias = Literal["error", "accept"]
"""How to treat a verdict whose judge did not repeat the nonce of its call: as an error, or as `unverified`."""


class RetryPolicy(Struct, frozen=True):
    """The rules for retries of a call.

    Each delay is what the server requests, else `initial_delay_s` times `backoff_factor` for each earlier retry, with
    random jitter. It is at most `max_delay_s`.
    """

    max_retries: int = 3
    initial_delay_s: float = 1.0
    max_delay_s: float = 60.0
    backoff_factor: float = 2.0
    status_codes: tuple[int, ...] = DEFAULT_RETRY_STATUSES
    """The HTTP statuses that are retried."""
    retry_timeouts: bool = False
    """True if a command or coding agent that timed out is called again. By default it is not, because a call that timed
    out may have cost money.
    """


class TargetConfig(Struct, frozen=True):
    """A target as written, with references unexpanded."""

    name: str
    provider: str
    settings: Mapping[str, JsonValue] = field(default_factory=dict)
    """Every key but the name and the provider."""
    path: str = ""
    """The file that defines the target; "" from Python."""
    line: int = 0
    base_dir: str = "."
    """The folder from which relative paths of the target start."""


def name_of_target(given: str | JsonObject) -> str:
    """Return the name of a target; a target that is defined inline (`{provider: …}`) is named by its JSON."""
    return given if isinstance(given, str) else compact_json(given)


DEFAULT_TRY_TIMEOUT_S = 600.0


class _FormerWords(StructMeta):
    """The metaclass of ResolvedTarget, which takes the former keyword `judge_target`."""

    if not TYPE_CHECKING:  # type checkers know the signature of the class itself

        def __call__(cls, *arguments: Any, **keywords: Any) -> Any:  # noqa: N805 - the instances of a metaclass are classes
            """Make an instance; `judge_target` sets `judge`, with a DeprecationWarning."""
            if "judge_target" in keywords:
                _warn_of_judge_target()
                keywords["judge"] = keywords.pop("judge_target")
            return super().__call__(*arguments, **keywords)


def _warn_of_judge_target() -> None:
    warnings.warn("ResolvedTarget.judge_target is deprecated; use judge", DeprecationWarning, stacklevel=3)


class ResolvedTarget(Struct, frozen=True, metaclass=_FormerWords):
    """A target ready for use: provider name canonical, references expanded, settings typed and checked."""

    name: str
    provider: str
    settings: object
    """An object of the provider's own settings class."""
    public_settings: JsonObject = field(default_factory=dict)
    """What may be stored and hashed: every setting under its key in the file, with secrets redacted."""
    secrets: tuple[str, ...] = ()
    """The values to redact from all output."""
    own_secrets: tuple[str, ...] = ()
    """The secrets of its settings; they identify its account."""
    public_env: tuple[str, ...] = ()
    """The names of environment variables that hold no secret."""
    workers: int | Literal["auto"] | None = None
    provider_batching: bool = False
    batch_size: int | None = None
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    timeout_s: float | None = None
    judge: str | None = None
    """The name of the target that judges its answers; None if it judges them itself, or cannot."""
    fallback_targets: tuple[str, ...] = ()
    unsigned: Unsigned = "error"
    system_prompt: str | None = None
    price: Price | None = None
    requests_per_minute: float | None = None
    tokens_per_minute: float | None = None
    workspace: JsonObject | None = None
    resources: Mapping[str, float] = field(default_factory=dict)
    """The amounts that each concurrent row needs on a node of a cluster, by resource."""
    node_label: Mapping[str, str] = field(default_factory=dict)
    """The labels that a node of a cluster must have."""
    path: str = ""
    line: int = 0
    base_dir: str = "."

    @property
    def judge_target(self) -> str | None:
        """The former name of `judge`."""
        _warn_of_judge_target()
        return self.judge

    @property
    def try_timeout_s(self) -> float:
        """The time limit of one attempt, in seconds: the target's `timeout_seconds`, else ten minutes."""
        return self.timeout_s or DEFAULT_TRY_TIMEOUT_S
