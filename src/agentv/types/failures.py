"""Failures of a case, as values. The set of kinds is fixed (docs/reference/run-folder.md)."""

from typing import Literal, TypeAlias, get_args

from msgspec import Struct

from agentv.types.json_value import JsonObject

FailureKind: TypeAlias = Literal[
    "deadline",
    "rate_limited",
    "server_error",
    "auth",
    "bad_request",
    "content_filter",
    "transport",
    "malformed_reply",
    "unexpected_shape",
    "too_large",
    "healthcheck",
    "target_exit",
    "target_timeout",
    "target_missing",
    "judge_error",
    "evaluator_error",
    "regex_timeout",
    "config_error",
    "plugin_error",
    "store_error",
    "budget",
    "cancelled",
    "dependency",
]
FAILURE_KINDS: tuple[str, ...] = get_args(FailureKind)

Stage: TypeAlias = Literal["load", "healthcheck", "target", "evaluator", "store"]


class Failure(Struct, frozen=True, gc=False):
    """One failure at a stage of a case."""

    kind: FailureKind
    message: str
    """What happened and what to do."""
    stage: Stage = "target"
    retryable: bool = False
    http_status: int | None = None
    retry_after_s: float | None = None
    details: JsonObject | None = None
