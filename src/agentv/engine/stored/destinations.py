"""Where the results of a run are sent, by the settings of the environment."""

import os
from pathlib import Path
from typing import Literal, TypeAlias, get_args

from agentv.loading.files.dotenv import load_env
from agentv.telemetry.sending.collector import find_collector
from agentv.telemetry.sending.langfuse import LangfuseDestination
from agentv.telemetry.sending.otlp import OtlpDestination
from agentv.telemetry.sending.phoenix import PhoenixDestination

ServiceName: TypeAlias = Literal["langfuse", "phoenix"]
SERVICE_NAMES: tuple[ServiceName, ...] = get_args(ServiceName)


def collector_destination(url: str | None, *, with_content: bool) -> OtlpDestination:
    """Return the collector at a URL; without a URL, that of the standard variables. Raises ConfigError."""
    return OtlpDestination(find_collector(url, os.environ), with_content=with_content, env=os.environ)


def service_destination(name: ServiceName, *, with_reasons: bool) -> LangfuseDestination | PhoenixDestination:
    """Return a service by the variables of the environment and of `.env`. Raises ConfigError."""
    service = LangfuseDestination if name == "langfuse" else PhoenixDestination
    return service(load_env(Path.cwd(), os.environ), with_reasons=with_reasons)
