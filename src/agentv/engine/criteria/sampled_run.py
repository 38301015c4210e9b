"""The run in which a sampler stores its judgements, to send them from there to an OpenTelemetry collector."""

import logging
import os
from pathlib import Path

from agentv.engine.criteria.answer_tasks import AnswerTasks
from agentv.engine.criteria.process_runs import ProcessRun
from agentv.engine.stored.sending import BackgroundExport
from agentv.loading.files.places import find_home
from agentv.scoring.results.by_criterion import JudgedCriteria
from agentv.telemetry.collector import find_collector
from agentv.telemetry.otlp import OtlpDestination
from agentv.types.errors import StorageError
from agentv.types.evaluation_input import EvaluationInput

log = logging.getLogger("agentv")


def find_destination(url: str | None, *, with_content: bool) -> OtlpDestination:
    """Return the collector at a URL; for None, that of the standard variables. Raises ConfigError."""
    collector = find_collector(url, os.environ)
    return OtlpDestination(collector, with_content=with_content, env=os.environ)


class SampledRun:
    """A stored run whose results a thread sends to a collector.

    The run is the queue: a collector that fails delays nothing.
    It belongs to the process and the thread that created it.
    """

    def __init__(self, tasks: AnswerTasks, destination: OtlpDestination, *, name: str | None, path: str | None) -> None:
        self._export = BackgroundExport(find_home(Path.cwd()), destination)
        self._run = ProcessRun(tasks, name=name, path=path, observers=[self._export])

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
        self._export.close()
        try:
            report = self._export.report()
        except (StorageError, OSError) as error:
            log.warning("sampler: cannot count the unsent results: %s", error)
            return
        if report is not None and (report.unsent or report.dropped):
            what = f"{report.unsent} results unsent" if report.unsent else f"{report.dropped} results dropped"
            to, reason = report.destination.shown, report.reason or "no reason"
            log.warning("sampler: %s to %s (%s); send them later: %s", what, to, reason, report.command)
