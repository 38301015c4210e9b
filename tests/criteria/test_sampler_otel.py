"""The sampler sends its judgements to an OpenTelemetry collector, from the run that it stores them in."""

import asyncio
import json
import logging
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from tests.support.collectors import Collector, collecting

from agentv import EvaluationRunConfig, Sampler
from agentv.cli.main import main
from agentv.types.errors import ConfigError

CONFIG = EvaluationRunConfig(evaluators=[{"type": "contains", "name": "city", "value": "Paris"}])
TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / ".git").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def line(number: int, **fields: Any) -> dict[str, Any]:
    return {"id": f"a{number}", "prompt": "Capital?", "response": "Paris", **fields}


def call_main(*arguments: str) -> int:
    with pytest.raises(SystemExit) as left:
        main(list(arguments))
    return int(left.value.code or 0)


def runs() -> list[Path]:
    return sorted(Path(".agentv/runs").iterdir())


def test_each_judgement_is_sent_below_the_span_of_its_answer() -> None:
    with collecting() as collector:
        with Sampler(CONFIG, otel=collector.url, name="live") as sampler:
            for number in range(20):
                sampler.offer(line(number, metadata={"trace_id": TRACE, "span_id": SPAN}))
        assert sampler.stats.judged == 20
        evaluations = collector.evaluations()
    assert {each.attributes["test.case.name"] for each in evaluations} == {f"a{number}" for number in range(20)}
    assert {(each.trace_id, each.parent_id) for each in evaluations} == {(TRACE, SPAN)}
    assert {each.attributes["agentv.run.id"] for each in evaluations} == {sampler.run_id}
    assert len(collector.logs) == 20
    assert not any(b"Capital?" in each for each in collector.bodies)
    assert call_main("show", "live") == 0


def test_content_is_sent_only_on_request() -> None:
    with collecting() as collector, Sampler(CONFIG, otel=collector.url, otel_content=True) as sampler:
        sampler.offer(line(1))
        sampler.close()
        assert "Capital?" in str(next(span for span in collector.spans if span.name == "case a1").attributes)


def test_true_stands_for_the_collector_of_the_standard_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    with collecting() as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
        with Sampler(CONFIG, otel=True) as sampler:
            sampler.offer(line(1))
        assert len(collector.evaluations()) == 1


def refuse(_request: web.Request, _collector: Collector) -> web.Response:
    return web.Response(status=400)


@pytest.mark.parametrize("is_dead", [True, False])
def test_what_a_collector_did_not_take_is_named_and_sent_later(is_dead: bool, caplog: pytest.LogCaptureFixture) -> None:
    with collecting(refuse) as refusing:
        url = "http://127.0.0.1:9" if is_dead else refusing.url
        with caplog.at_level(logging.WARNING, "agentv"), Sampler(CONFIG, otel=url) as sampler:
            for number in range(3):
                sampler.offer(line(number))
    assert sampler.stats.judged == 3
    [message] = [each.getMessage() for each in caplog.records]
    assert message.startswith(f"sampler: 3 results unsent to {url}")
    assert message.endswith(f"send them later: agentv runs export --otel={url} {sampler.run_id}")
    with collecting() as collector:
        assert call_main("runs", "export", f"--otel={collector.url}", str(sampler.run_id)) == 0
        assert len(collector.evaluations()) == 3


def test_an_asynchronous_service_waits_for_nothing_but_the_end() -> None:
    async def serve(url: str) -> Sampler:
        async with Sampler(CONFIG, otel=url) as sampler:
            await asyncio.gather(*(sampler.put(line(number)) for number in range(50)))
        return sampler

    with collecting() as collector:
        sampler = asyncio.run(serve(collector.url))
        assert sampler.stats.judged == len(collector.evaluations()) == 50


PROGRAM = """
import agentv, os, sys
config = agentv.EvaluationRunConfig(evaluators=[{'type': 'contains', 'name': 'city', 'value': 'Paris'}])
sampler = agentv.Sampler(config, otel=sys.argv[1])
"""


def in_process(collector: Collector, rest: str) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PROGRAM + rest, collector.url],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.parametrize("begun", ["sampler.start()", "sampler.offer({'id': '0', 'prompt': 'q', 'response': 'Paris'})"])
def test_each_forked_process_sends_from_a_run_of_its_own(begun: str) -> None:
    rest = f"""
{begun}
child = os.fork()
sampler.offer({{'id': 'child' if not child else 'parent', 'prompt': 'q', 'response': 'Paris'}})
sampler.close()
if child:
    os.waitpid(child, 0)
else:
    os._exit(0)
"""
    with collecting() as collector:
        in_process(collector, rest)
        sent = collector.evaluations()
    by_case = {each.attributes["test.case.name"]: each.attributes["agentv.run.id"] for each in sent}
    assert {"parent", "child"} <= by_case.keys()
    assert by_case["parent"] != by_case["child"]
    assert len(sent) == len(by_case)
    assert len(runs()) == 2


def test_judgements_are_sent_before_a_program_ends_that_does_not_close_it() -> None:
    with collecting() as collector:
        in_process(collector, "for n in range(5): sampler.offer({'id': str(n), 'prompt': 'q', 'response': 'Paris'})\n")
        assert len(collector.evaluations()) == 5


def test_a_named_run_is_continued_and_nothing_is_sent_twice() -> None:
    with collecting() as collector:
        for number in range(2):
            with Sampler(CONFIG, otel=collector.url, name="live") as sampler:
                sampler.offer(line(number))
        assert set(collector.span_ids().values()) == {1}
        assert len(collector.evaluations()) == 2
    [run] = runs()
    assert json.loads((run / "run.json").read_text())["name"] == "live"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"otel": 3}, "otel must be True, False or the URL of a collector, not 3"),
        ({"otel": ""}, "otel must be True, False or the URL of a collector, not ''"),
        ({"otel": "localhost:4318"}, "localhost:4318"),
        ({"name": "live"}, "`name` requires `otel` or `export`"),
        ({"export": "jaeger"}, "export must be 'langfuse' or 'phoenix', not 'jaeger'"),
        ({"export": "langfuse"}, "LANGFUSE_PUBLIC_KEY"),
        ({"export_reasons": True}, "`export_reasons` requires `export`: 'langfuse' or 'phoenix'"),
        ({"otel_content": True}, "`otel_content` requires `otel`"),
    ],
)
def test_wrong_arguments_are_refused(options: dict[str, Any], message: str) -> None:
    make: Callable[..., Sampler] = Sampler
    with pytest.raises(ConfigError) as raised:
        make(CONFIG, **options)
    assert message in str(raised.value)
