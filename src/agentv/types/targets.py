"""Targets: provider, settings, retries."""

from collections.abc import Mapping
from typing import Literal, TypeAlias

from msgspec import Struct, field

from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.messages_json import compact_json
from agentv.types.usage import Price

DEFAULT_RETRY_STATUSES = (408, 429, 500, 502, 503, 504, 529)


Unsigned: TypeAlias = Literal["error", "accept"]
"""What a judge's verdict without the one-time text of its call is: an error, or accepted as `unverified`."""


class RetryPolicy(Struct, frozen=True):
    """The number and the delays of retries; delays in seconds, grown by `backoff_factor`, jittered.

    `retry_timeouts` says whether a program that took too long is started again: it may have worked, and cost, for long.
    """

    max_retries: int = 3
    initial_delay_s: float = 1.0
    max_delay_s: float = 60.0
    backoff_factor: float = 2.0
    status_codes: tuple[int, ...] = DEFAULT_RETRY_STATUSES
    retry_timeouts: bool = False


class TargetConfig(Struct, frozen=True):
    """A target as written: its name, its provider, and every other key in `settings`, references unexpanded.

    `path` is the file that defines it ("" from Python), `base_dir` the folder for its relative paths.
    """

    name: str
    provider: str
    settings: Mapping[str, JsonValue] = field(default_factory=dict)
    path: str = ""
    line: int = 0
    base_dir: str = "."


def name_of_target(given: str | JsonObject) -> str:
    """Return the name under which a target is found: for one written in place of a name, its JSON."""
    return given if isinstance(given, str) else compact_json(given)


DEFAULT_TRY_TIMEOUT_S = 600.0


class ResolvedTarget(Struct, frozen=True):
    """A target ready for use: provider name canonical, references expanded, settings typed and checked.

    `settings` is an object of the provider's own settings class. `public_settings` is what may be stored and hashed:
    every setting as written, secrets redacted. `secrets` are the values to redact from all output, and `public_env` the
    variables that hold none. `resources` is what each concurrent row occupies on a node of a cluster, by name, and
    `node_label` what the labels of the node must be.
    """

    name: str
    provider: str
    settings: object
    public_settings: JsonObject = field(default_factory=dict)
    secrets: tuple[str, ...] = ()
    public_env: tuple[str, ...] = ()
    workers: int | None = None
    provider_batching: bool = False
    batch_size: int | None = None
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    timeout_s: float | None = None
    judge_target: str | None = None
    fallback_targets: tuple[str, ...] = ()
    unsigned: Unsigned = "error"
    system_prompt: str | None = None
    price: Price | None = None
    requests_per_minute: float | None = None
    tokens_per_minute: float | None = None
    workspace: JsonObject | None = None
    resources: Mapping[str, float] = field(default_factory=dict)
    node_label: Mapping[str, str] = field(default_factory=dict)
    path: str = ""
    line: int = 0
    base_dir: str = "."

    @property
    def try_timeout_s(self) -> float:
        """The time limit of one attempt, in seconds: `timeout_seconds` of the target, else ten minutes."""
        return self.timeout_s or DEFAULT_TRY_TIMEOUT_S
