"""The real Phoenix server and the real client of Langfuse, each in an environment of its own in the user's cache.

`AGENTV_PHOENIX=1 ./run pytest -m nightly tests/telemetry/test_real_services.py` installs Phoenix (625 MB). The server
of Langfuse needs containers and ClickHouse: its client stands in for it, with the models of its requests.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest
from tests.support.carrying import Project
from tests.support.ports import free_port
from tests.support.score_services import PUBLIC_KEY, SECRET_KEY, keeping_scores, take_batch, traced_lines
from tests.telemetry.record import RECORDED

PHOENIX, LANGFUSE = "arize-phoenix==20.26.1", "langfuse==4.18.0"
RECORDINGS = ("pydantic-ai", "openinference-langchain", "openinference-openai-agents-chat")
SCORE = """
evaluators:
  - {name: policy, type: contains, value: 30 days}
  - {name: short, type: length, max: 40}
"""
READY_S = 120
pytestmark = pytest.mark.nightly


def environment(package: str) -> Path:
    """Return the folder of the programs of an environment with a package; skip the test if it cannot be made."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    place = cache / "agentv-services" / package.replace("==", "-")
    if not (place / "installed").exists():
        uv = os.environ.get("UV", "uv")
        commands: Sequence[Sequence[str]] = (
            (uv, "venv", "--quiet", "--clear", "--python", sys.executable, str(place)),
            (uv, "pip", "install", "--quiet", "--python", str(place / "bin" / "python"), package),
        )
        for command in commands:
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                pytest.skip(f"{package} cannot be installed: {done.stderr.strip().splitlines()[-1:]}")
        (place / "installed").touch()
    return place / "bin"


@pytest.fixture
def phoenix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The URL of a new Phoenix that has the recorded traces."""
    if os.environ.get("AGENTV_PHOENIX") != "1":
        pytest.skip("Phoenix is 625 MB: set AGENTV_PHOENIX=1 to run it")
    port, home = free_port(), tmp_path / "phoenix"
    variables = {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "PHOENIX_WORKING_DIR": str(home),
        "PHOENIX_HOST": "127.0.0.1",
        "PHOENIX_PORT": str(port),
        "PHOENIX_GRPC_PORT": str(free_port()),
        "PHOENIX_TELEMETRY_ENABLED": "false",
    }
    home.mkdir()
    url = f"http://127.0.0.1:{port}"
    with (tmp_path / "phoenix.log").open("w") as log:
        server = subprocess.Popen(
            (environment(PHOENIX) / "phoenix", "serve"), env=variables, cwd=home, stdout=log, stderr=subprocess.STDOUT
        )
    try:
        wait_until_ready(url, server)
        for name in RECORDINGS:
            body = (RECORDED / f"{name}.pb").read_bytes()
            with urlopen(Request(f"{url}/v1/traces", body, {"Content-Type": "application/x-protobuf"})) as response:
                assert response.status == 200
        monkeypatch.setenv("PHOENIX_ENDPOINT", url)
        monkeypatch.delenv("PHOENIX_API_KEY", raising=False)
        yield url
    finally:
        server.send_signal(signal.SIGTERM)
        try:
            server.wait(30)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


def wait_until_ready(url: str, server: "subprocess.Popen[bytes]") -> None:
    until = time.monotonic() + READY_S
    while time.monotonic() < until:
        assert server.poll() is None, "Phoenix has ended"
        try:
            with urlopen(f"{url}/healthz", timeout=1):
                return
        except OSError:
            time.sleep(0.5)
    raise AssertionError(f"Phoenix was not ready after {READY_S} s")


def annotations(url: str, spans: Sequence[str]) -> list[dict[str, Any]]:
    """Return the annotations of spans that Phoenix has."""
    query = "&".join(f"span_ids={each}" for each in spans)
    with urlopen(f"{url}/v1/projects/default/span_annotations?limit=1000&{query}") as response:
        found: list[dict[str, Any]] = json.load(response)["data"]
    return found


def send_until_known(project: Project, *arguments: str) -> str:
    """Export until Phoenix, which stores traces some time after it has taken them, knows every span."""
    until = time.monotonic() + 30
    while True:
        code, said = project.call("runs", "export", "--export", "phoenix", "--resend", *arguments)
        if code == 0 or time.monotonic() > until:
            return said
        time.sleep(0.5)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Project:
    folder = tmp_path / "project"
    (folder / ".git").mkdir(parents=True)
    (folder / "score.yaml").write_text(SCORE)
    monkeypatch.chdir(folder)
    return Project(folder, capsys)


def test_phoenix_shows_each_score_once_at_the_span_that_was_judged(project: Project, phoenix: str) -> None:
    traces = [str(RECORDED / f"{name}.pb") for name in RECORDINGS]
    project.call("score", *traces, "--config", "score.yaml", "--display", "none")
    spans = [row["span_id"] for row in project.stored("results.jsonl")]
    assert len(spans) == 9
    for options in ((), ("--export-reasons",), ("--export-reasons",)):
        assert send_until_known(project, *options) == f"phoenix: 9 results sent to {phoenix}\n"
    found = annotations(phoenix, spans)
    assert Counter(each["name"] for each in found) == {"policy": 9, "short": 9}
    assert {each["annotator_kind"] for each in found} == {"CODE"}
    policy = {each["span_id"]: each["result"] for each in found if each["name"] == "policy"}
    for row in project.stored("results.jsonl"):
        (judged, _) = row["evaluator_results"]
        result = policy[row["span_id"]]
        assert (result["score"], result["label"]) == (judged["score"], judged["verdict"])
        assert "30 days" in result["explanation"]


def test_phoenix_names_the_spans_that_it_does_not_have(project: Project, phoenix: str) -> None:
    (project.folder / "log.jsonl").write_text(traced_lines(2))
    _, said = project.call(
        "score", "log.jsonl", "--config", "score.yaml", "--display", "none", "--gate", "none", "--export", "phoenix"
    )
    assert f"phoenix: 0 results sent to {phoenix} (4 scores dropped by Phoenix" in said
    assert f"it has no trace or span {1:016x} and 1 more" in said


CHECK = """
import json, sys
from langfuse.api import IngestionEvent_ScoreCreate
from langfuse.api.core.pydantic_utilities import parse_obj_as
for event in json.load(sys.stdin)["batch"]:
    read = parse_obj_as(IngestionEvent_ScoreCreate, event)
    for model in (read, read.body):
        print(sorted(model.model_extra))
    print(json.dumps([read.body.trace_id, read.body.observation_id, read.body.value, read.body.data_type.value]))
"""
CREATE = """
import datetime
from langfuse import Langfuse
client = Langfuse()
for _ in range(2):
    client.create_score(
        trace_id="0" * 31 + "1", observation_id="0" * 15 + "1", name="tone", value=0.5, data_type="NUMERIC",
        comment="why", metadata={"a": 1}, score_id="one", timestamp=datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC),
    )
client.flush()
"""


def test_the_models_of_the_client_of_langfuse_read_what_is_sent(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project.folder / "log.jsonl").write_text(traced_lines(1))
    with keeping_scores(take_batch) as service:
        monkeypatch.setenv("LANGFUSE_BASE_URL", service.url)
        monkeypatch.setenv("LANGFUSE_PUBLIC_KEY", PUBLIC_KEY)
        monkeypatch.setenv("LANGFUSE_SECRET_KEY", SECRET_KEY)
        project.call(
            "score", "log.jsonl", "--config", "score.yaml", "--display", "none", "--export", "langfuse",
            "--export-reasons",
        )  # fmt: skip
    python = environment(LANGFUSE) / "python"
    done = subprocess.run((python, "-c", CHECK), input=service.bodies[0], capture_output=True, check=True)
    known = ["[]", "[]"]
    assert done.stdout.decode().splitlines() == [
        *known,
        json.dumps([f"{1:032x}", f"{1:016x}", 0.0, "NUMERIC"]),
        *known,
        json.dumps([f"{1:032x}", f"{1:016x}", 1.0, "NUMERIC"]),
    ]


def test_the_stand_in_for_langfuse_takes_what_its_client_sends() -> None:
    python = environment(LANGFUSE) / "python"
    with keeping_scores(take_batch) as service:
        variables = {
            "PATH": os.environ["PATH"],
            "LANGFUSE_BASE_URL": service.url,
            "LANGFUSE_PUBLIC_KEY": PUBLIC_KEY,
            "LANGFUSE_SECRET_KEY": SECRET_KEY,
        }
        done = subprocess.run((python, "-c", CREATE), env=variables, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert [score.reasons for score in service.scores.values()] == ["why"], done.stderr
