"""Models of targets files (docs/reference/targets.md), and of the common keys of all targets."""

from typing import Annotated, ClassVar, Literal, TypeAlias

from msgspec import Meta, field

from agentv.loading.models.eval_files import WorkspaceModel
from agentv.loading.models.file_model import DefinedAs, FileModel
from agentv.types.bounds import Count, Milliseconds, Name, Seconds, Workers
from agentv.types.targets import RetryPolicy, Unsigned
from agentv.types.usage import Price


class PriceModel(FileModel, frozen=True, kw_only=True):
    """Dollars per million tokens."""

    input_per_million: Annotated[float, Meta(ge=0)]
    output_per_million: Annotated[float, Meta(ge=0)]

    def to_price(self) -> Price:
        """Return the price."""
        return Price(self.input_per_million, self.output_per_million)


Targets: TypeAlias = Annotated[list[object], DefinedAs("Targets")]
RetryCount: TypeAlias = Annotated[int, Meta(ge=0)]
HttpStatus: TypeAlias = Annotated[int, Meta(ge=100, le=599)]


class TargetsFileModel(FileModel, frozen=True, kw_only=True):
    """The top level of a targets file."""

    schema_name: Annotated[Literal["agentv-targets-v2.2"] | None, Meta(extra={"file_key": "$schema"})] = None
    dialect: Literal["agentv", "agentv-1", "agentv-2", "agentv-4"] | None = None
    targets: Targets


class UseTargetModel(FileModel, frozen=True, kw_only=True):
    """An alias of another target; a variable may choose the target."""

    name: Name
    use_target: Name


class RetryModel(FileModel, frozen=True, kw_only=True):
    """The object `retry:`; its keys may also be written as those directly in a target, which start with `retry_`."""

    ALIASES: ClassVar = {
        "retry_initial_delay_ms": "initial_delay_ms",
        "retry_max_delay_ms": "max_delay_ms",
        "retry_backoff_factor": "backoff_factor",
        "retry_status_codes": "status_codes",
        "retryable_status_codes": "status_codes",
    }

    max_retries: RetryCount | None = None
    initial_delay_ms: Milliseconds | None = None
    max_delay_ms: Milliseconds | None = None
    backoff_factor: Annotated[float, Meta(ge=1)] | None = None
    status_codes: list[HttpStatus] | None = None
    retry_timeouts: bool | None = None


class TargetModel(FileModel, frozen=True, kw_only=True):
    """The common keys of all targets; the provider's own settings are in the same object."""

    ALIASES: ClassVar = {
        "judge_target": "judge",
        "initial_delay_ms": "retry_initial_delay_ms",
        "max_delay_ms": "retry_max_delay_ms",
        "backoff_factor": "retry_backoff_factor",
        "retryable_status_codes": "retry_status_codes",
        "status_codes": "retry_status_codes",
    }

    ELSEWHERE: ClassVar = {
        "id": "here it is `name`",
        "label": "here it is `name`",
        "type": "here it is `provider`",
        "concurrency": "here it is `workers`",
        "max_concurrency": "here it is `workers`",
        "timeout": "here it is `timeout_seconds`",
        "grader": "here it is `judge`",
    }

    name: Name
    provider: Name
    judge: Name | None = None
    fallback_targets: list[Name] = field(default_factory=list)
    unsigned: Unsigned = "error"
    workers: Workers | None = None
    provider_batching: bool = False
    batch_size: Count | None = None
    max_retries: RetryCount | None = None
    retry_initial_delay_ms: Milliseconds | None = None
    retry_max_delay_ms: Milliseconds | None = None
    retry_backoff_factor: Annotated[float, Meta(ge=1)] | None = None
    retry_status_codes: list[HttpStatus] | None = None
    retry_timeouts: bool | None = None
    retry: RetryModel | None = None
    timeout_seconds: Seconds | None = None
    requests_per_minute: Annotated[float, Meta(gt=0)] | None = None
    tokens_per_minute: Annotated[float, Meta(gt=0)] | None = None
    price: PriceModel | None = None
    system_prompt: str | None = None
    workspace: WorkspaceModel | None = None
    resources: dict[str, Annotated[float, Meta(gt=0)]] = field(default_factory=dict)
    node_label: dict[str, str] = field(default_factory=dict)

    def to_retry_policy(self) -> RetryPolicy:
        """Return the policy; a flat key overrides that under `retry:`, and both override the default."""
        nested = self.retry or RetryModel()
        default = RetryPolicy()
        initial_ms = _first(self.retry_initial_delay_ms, nested.initial_delay_ms, default.initial_delay_s * 1000)
        timeouts = self.retry_timeouts if self.retry_timeouts is not None else nested.retry_timeouts
        codes = self.retry_status_codes if self.retry_status_codes is not None else nested.status_codes
        return RetryPolicy(
            max_retries=int(_first(self.max_retries, nested.max_retries, default.max_retries)),
            initial_delay_s=initial_ms / 1000,
            max_delay_s=_first(self.retry_max_delay_ms, nested.max_delay_ms, default.max_delay_s * 1000) / 1000,
            backoff_factor=_first(self.retry_backoff_factor, nested.backoff_factor, default.backoff_factor),
            status_codes=default.status_codes if codes is None else tuple(codes),
            retry_timeouts=default.retry_timeouts if timeouts is None else timeouts,
        )


def _first(*values: float | None) -> float:
    return next(value for value in values if value is not None)
