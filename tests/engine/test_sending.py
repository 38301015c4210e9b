"""An export in the foreground: how often a collector that refuses is asked, and after which pauses."""

from pathlib import Path

import pytest
from aiohttp import web
from tests.support.carrying import AGENT
from tests.support.collectors import Collector, collecting

import agentv
from agentv.engine.stored.sending import Exporter, export_run
from agentv.telemetry.sending.collector import find_collector
from agentv.telemetry.sending.otlp import OtlpDestination


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a run with one result."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "agent.py").write_text(AGENT)
    (tmp_path / "targets.yaml").write_text("targets: [{name: t, provider: python, callable: 'agent.py:answer'}]")
    case = "{id: a, input: q, evaluators: [{name: has, type: contains, value: answer}]}"
    (tmp_path / "suite.yaml").write_text(f"cases: [{case}]\n")
    report = agentv.evaluate("suite.yaml")
    return Path(str(report.folder))


def pauses_of(run: Path, *responses: web.Response | None) -> tuple[list[float], int, int]:
    """Return the pauses of an export to a collector with these responses, and the numbers of sent and unsent."""
    left = list(responses)

    def respond(request: web.Request, _: Collector) -> web.Response | None:
        return left.pop(0) if left and request.path.endswith("traces") else None

    pauses: list[float] = []
    with collecting(respond) as collector:
        exporter = Exporter(run, OtlpDestination(find_collector(collector.url, {}), env={}))
        report = export_run(exporter, wait=pauses.append)
    return pauses, report.sent, report.unsent


def refusal(status: int, **headers: str) -> web.Response:
    return web.Response(status=status, headers=headers)


def test_a_collector_that_is_busy_is_asked_again_after_growing_pauses(run: Path) -> None:
    assert pauses_of(run, refusal(503), refusal(503)) == ([1.0, 2.0], 1, 0)


def test_the_pause_is_the_one_that_the_collector_asks_for(run: Path) -> None:
    assert pauses_of(run, refusal(429, **{"Retry-After": "7"})) == ([7.0], 1, 0)


def test_an_export_does_not_wait_for_a_long_pause(run: Path) -> None:
    assert pauses_of(run, refusal(429, **{"Retry-After": "600"})) == ([], 0, 1)


def test_a_refusal_that_will_not_change_is_not_repeated(run: Path) -> None:
    assert pauses_of(run, refusal(401)) == ([], 0, 1)


def test_an_export_gives_up_after_a_few_attempts(run: Path) -> None:
    assert pauses_of(run, *(refusal(503) for _ in range(3))) == ([1.0, 2.0], 0, 1)
