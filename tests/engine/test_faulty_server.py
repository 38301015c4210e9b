"""A model server that misbehaves in every way, against whole runs: each fault affects only its own row."""

import base64
import json
import os
import sys
import urllib.parse
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from tests.support.fake_server import serving_fake

from agentv import EvaluatorConfig, RunReport, evaluate
from agentv.engine.running.clock import make_clock
from agentv.fake import FakeServer, Quota
from agentv.reports.progress.json_lines import JsonLines
from agentv.reports.progress.observers import make_observer
from agentv.storage.records.encode import export_record

KINDS: dict[str, set[str | None]] = {
    "429": {"rate_limited"},
    "429-date": {"rate_limited"},
    "500": {"server_error"},
    "503": {"server_error"},
    "529": {"server_error", "rate_limited"},
    "401": {"auth"},
    "403": {"auth"},
    "404": {"bad_request"},
    "400": {"bad_request"},
    "content-filter": {"content_filter"},
    "empty": {"malformed_reply"},
    "null": {"unexpected_shape"},
    "truncated": {"malformed_reply"},
    "wrong-types": {"unexpected_shape"},
    "not-utf8": {"malformed_reply"},
    "nested": {"malformed_reply", "unexpected_shape"},
    "html": {"malformed_reply"},
    "error-in-200": {"unexpected_shape"},
    "reset": {"transport"},
    "hang-up": {"transport"},
    "hang": {"deadline"},
    "stall": {"deadline"},
    "cut": {"transport", "malformed_reply"},
    "drip": {"deadline"},
    "huge": {"too_large"},
    "gzip-bomb": {"too_large"},
    "bad-gzip": {"malformed_reply"},
    "redirect": {"bad_request", "unexpected_shape", "transport", "server_error"},
}
GOOD, BAD = 1000, 20
ENDLESS = ("@hang", "@stall", "@drip")
DEADLINE_S = 1.0
ANSWERED = EvaluatorConfig("answered", "length", {"min": 1})
KEY = "canary/key+with=signs-4711"


@pytest.fixture
def server() -> Iterator[FakeServer]:
    with serving_fake(retry_after_s=0.01) as found:
        yield found


def case(name: str) -> str:
    content = {"role": "user", "content": f"Say something about {name}."}
    return json.dumps({"id": name, "expected_outcome": "an answer", "input_messages": [content]})


def write_suite(folder: Path, name: str, count: int) -> None:
    (folder / f"{name}.jsonl").write_text("\n".join(case(f"{name}-{number}") for number in range(count)))
    (folder / f"{name}.yaml").write_text(f"description: x\ntarget: '{name}'\n")


def write_targets(folder: Path, server: FakeServer, models: dict[str, str]) -> None:
    lines = [
        f"  - {{name: '{name}', timeout_seconds: {DEADLINE_S if model.endswith(ENDLESS) else 30}, provider: openai, "
        f"base_url: '{server.url}/v1', api_key: '${{{{ KEY_{number} }}}}', "
        f"model: '{model}', max_retries: 0, workers: 4}}"
        for number, (name, model) in enumerate(models.items())
    ]
    (folder / "targets.yaml").write_text("targets:\n" + "\n".join(lines))
    (folder / ".env").write_text("".join(f"KEY_{number}={KEY}-{number}\n" for number in range(len(models))))


def test_a_thousand_good_cases_among_twenty_of_each_fault_come_through(tmp_path: Path, server: FakeServer) -> None:
    (tmp_path / ".git").mkdir()
    models = {"good": "fake", **{fault: f"fake@{fault}" for fault in KINDS}}
    write_targets(tmp_path, server, models)
    for name in models:
        write_suite(tmp_path, name, GOOD if name == "good" else BAD)
    before = psutil.Process().memory_info().rss
    report = evaluate(tmp_path, evaluators=[ANSWERED], folder=tmp_path / ".agentv", gates="none")
    grown = psutil.Process().memory_info().rss - before
    found: dict[str, Counter[str | None]] = {}
    for row in report.results:
        found.setdefault(row.target, Counter())[None if row.error is None else row.error.kind] += 1
    assert found["good"] == {None: GOOD}
    wrong = {fault: dict(found[fault]) for fault, kinds in KINDS.items() if not set(found[fault]) <= kinds}
    assert wrong == {}
    assert {sum(found[fault].values()) for fault in KINDS} == {BAD}
    assert grown < 300 * 2**20  # the server's own part is in it; one huge reply that is kept takes twice as much
    waited = [row for row in report.results if row.error is not None and row.error.kind == "deadline"]
    # The server lives in this process and sends gigabytes meanwhile; without a deadline no call would ever end.
    assert max(row.duration_ms or 0 for row in waited) < (DEADLINE_S + 10.0) * 1000


def spellings(secret: str) -> dict[str, bytes]:
    raw = secret.encode()
    return {
        "plain": raw,
        "json": json.dumps(secret)[1:-1].encode(),
        "url": urllib.parse.quote(secret, safe="").encode(),
        "base64": base64.b64encode(raw).rstrip(b"=")[:-2],
        "hex": raw.hex().encode(),
    }


def test_no_key_stands_in_anything_that_a_run_writes(
    tmp_path: Path, server: FakeServer, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / ".git").mkdir()
    models = {"good": "fake", "refused": "fake@401", "odd": "fake@wrong-types", "down": "fake@503"}
    write_targets(tmp_path, server, models)
    for name in models:
        write_suite(tmp_path, name, 2)
    log = tmp_path / ".log" / "events.jsonl"
    log.parent.mkdir()
    report = run_with_log(tmp_path, log)
    (tmp_path / ".env").unlink()
    written = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    said = capsys.readouterr()
    written[Path("screen")] = (said.out + said.err + repr(report)).encode()
    for number in range(len(models)):
        for how, spelt in spellings(f"{KEY}-{number}").items():
            assert [str(path) for path, data in written.items() if spelt in data] == [], how
    assert any(b"fake" in data for data in written.values()), "the search looks at what was written"


def run_with_log(folder: Path, log: Path) -> RunReport:
    with log.open("w") as stream:
        observers = [
            JsonLines(stream, to_record=export_record),
            make_observer(
                "plain", sys.stdout, is_terminal=False, env=os.environ, clock=make_clock(), to_record=export_record
            ),
        ]
        return evaluate(folder, evaluators=[ANSWERED], folder=folder / ".agentv", observers=observers)


def test_configured_rate_limit_is_respected_with_a_real_server(tmp_path: Path) -> None:
    with serving_fake(quota=Quota(requests_per_minute=1200, burst=20, headers=False)) as server:
        (tmp_path / ".git").mkdir()
        (tmp_path / "targets.yaml").write_text(
            f"targets: [{{name: t, provider: openai, base_url: '{server.url}/v1', model: fake, workers: 16, "
            "requests_per_minute: 1200}]"
        )
        write_suite(tmp_path, "t", 80)
        report = evaluate(tmp_path / "t.jsonl", evaluators=[ANSWERED], folder=tmp_path / ".agentv")
    assert report.exit_code == 0
    assert [call.status for call in server.calls].count(429) == 0
    # Ideal are four seconds; a quicker run would have had to break the limit.
    assert report.duration_s >= 3.5
