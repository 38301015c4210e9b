"""An OpenTelemetry collector as a destination: spans to one address, log records to another."""

from collections.abc import Mapping, Sequence
from urllib.parse import unquote

from msgspec.structs import replace

from agentv.telemetry.otlp.requests import Source, logs_request, rejected_part, traces_request
from agentv.telemetry.sending.collector import Collector
from agentv.telemetry.sending.destination import Delivered
from agentv.telemetry.sending.evaluations import Exported, RunContent, exported_result
from agentv.telemetry.sending.post import Refused, post
from agentv.types.records.result import CaseResult
from agentv.types.records.run import CaseRecord
from agentv.version import __version__


class OtlpDestination:
    """Sends each judgement as a span and as an event."""

    name = "otel"
    title = "the collector"
    record = "record"
    max_results = 256

    def __init__(self, collector: Collector, *, with_content: bool = False, env: Mapping[str, str]) -> None:
        self.shown = collector.shown
        self.option = f"{collector.option} --otel-content" if with_content else collector.option
        self.channels: Mapping[str, str] = {
            signal: collector.key(signal, with_content=with_content) for signal in collector.endpoints
        }
        self.secrets = tuple(value for endpoint in collector.endpoints.values() for value in endpoint.headers.values())
        self.wants_cases = with_content
        self._endpoints = collector.endpoints
        self._source = Source(resource_attributes(env), "agentv", __version__)

    def prepare(self, row: CaseResult, run_name: str | None, case: CaseRecord | None) -> Exported:
        """Return the spans and events of a result."""
        return exported_result(row, RunContent(run_name, self.wants_cases), case)

    def send(self, channel: str, items: Sequence[Exported]) -> Delivered | Refused:
        """Send the spans or the events."""
        if channel == "traces":
            body = traces_request(self._source, (span for each in items for span in each.spans))
        else:
            body = logs_request(self._source, (record for each in items for record in each.logs))
        outcome = post(self._endpoints[channel], body, content_type="application/x-protobuf")
        if isinstance(outcome, Refused):
            return _with_advice(outcome) if channel == "traces" else outcome
        rejected = rejected_part(outcome.body)
        return Delivered() if rejected is None else Delivered(rejected.count, reason=rejected.message)


def _with_advice(refused: Refused) -> Refused:
    match refused.status:
        case 401 | 403:
            return replace(refused, reason=f"{refused.reason}: check OTEL_EXPORTER_OTLP_HEADERS")
        case 301 | 302 | 307 | 308 | 404 | 405:
            advice = "check that this is the address of a collector for OTLP over HTTP"
            return replace(refused, reason=f"{refused.reason}: {advice}")
    return refused


def resource_attributes(env: Mapping[str, str]) -> dict[str, str]:
    """Return the attributes of the resource: those of the standard variables, and the service's name."""
    pairs = (part.partition("=") for part in env.get("OTEL_RESOURCE_ATTRIBUTES", "").split(","))
    named = {key.strip(): unquote(value.strip()) for key, equals, value in pairs if equals and key.strip()}
    return {"service.name": env.get("OTEL_SERVICE_NAME") or named.get("service.name") or "agentv"} | {
        key: value for key, value in named.items() if key != "service.name"
    }
