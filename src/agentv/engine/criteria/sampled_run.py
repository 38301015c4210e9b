"""The run in which a sampler stores its judgements, to send them from there to a collector or a service."""

import logging
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from agentv.engine.criteria.answer_tasks import AnswerTasks
from agentv.engine.criteria.process_runs import ProcessRun
from agentv.engine.stored.destinations import (
    SERVICE_NAMES,
    ServiceName,
    collector_destination,
    service_destination,
)
from agentv.engine.stored.sending import BackgroundExport, ExportReport
from agentv.loading.files.places import find_home
from agentv.reports.text.amounts import count_text
from agentv.scoring.results.by_criterion import JudgedCriteria
from agentv.telemetry.sending.destination import Destination
from agentv.types.errors import ConfigError, StorageError
from agentv.types.evaluation_input import EvaluationInput

log = logging.getLogger("agentv")


def find_destinations(
    *, otel: object, export: ServiceName | None, otel_content: bool, export_reasons: bool
) -> Iterator[Destination[Any]]:
    """Yield the collector and the service that the arguments of a sampler name. Raises ConfigError."""
    if otel_content and otel is False:
        raise ConfigError("`otel_content` requires `otel`: True, or the URL of a collector")
    if export_reasons and export is None:
        raise ConfigError(f"`export_reasons` requires `export`: {' or '.join(map(repr, SERVICE_NAMES))}")
    if otel is not True and otel is not False and (not isinstance(otel, str) or not otel):
        raise ConfigError(f"otel must be True, False or the URL of a collector, not {otel!r}")
    if export is not None and export not in SERVICE_NAMES:
        raise ConfigError(f"export must be {' or '.join(map(repr, SERVICE_NAMES))}, not {export!r}")
    if otel is not False:
        yield collector_destination(otel if isinstance(otel, str) else None, with_content=otel_content)
    if export is not None:
        yield service_destination(export, with_reasons=export_reasons)


class SampledRun:
    """A stored run whose results threads send to collectors and services, one thread to each.

    The run is the queue: a destination that fails delays nothing.
    It belongs to the process and the thread that created it.
    """

    def __init__(
        self, tasks: AnswerTasks, destinations: Sequence[Destination[Any]], *, name: str | None, path: str | None
    ) -> None:
        self._exports = [BackgroundExport(find_home(Path.cwd()), destination) for destination in destinations]
        self._run = ProcessRun(tasks, name=name, path=path, observers=self._exports)

    @property
    def run_id(self) -> str | None:
        """The id of the run, None before the first judgement."""
        return self._run.run_id

    def add(self, given: EvaluationInput, judged: JudgedCriteria) -> None:
        """Store a judgement. A failure is logged."""
        try:
            self._run.add(given, judged)
        except StorageError as error:
            log.error("sampler: a judgement was not stored in its run: %s", error)  # noqa: TRY400 - it names the place

    def close(self) -> None:
        """End the run, and wait for the last results to be sent, a few seconds at most. What is unsent is logged."""
        self._run.close()
        for export in self._exports:
            export.close()
        for export in self._exports:
            try:
                report = export.report()
            except (StorageError, OSError) as error:
                log.warning("sampler: cannot count the unsent results: %s", error)
                continue
            if report is not None:
                _log_rest(report)


def _log_rest(report: ExportReport) -> None:
    """Log what was not sent, and how to send it."""
    to = report.destination.shown
    for why, count in report.omitted.items():
        log.warning("sampler: %s not sent to %s: %s", count_text(count, "result"), to, why)
    if report.unsent or report.dropped:
        count, what = (report.unsent, "unsent") if report.unsent else (report.dropped, "dropped")
        what = f"{count_text(count, 'result')} {what}"
        log.warning(
            "sampler: %s to %s (%s); send them later: %s", what, to, report.reason or "no reason", report.command
        )
