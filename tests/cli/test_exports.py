"""`--export`: scores sent to the traces that were judged, beside `--otel`."""

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.carrying import Project
from tests.support.collectors import collecting
from tests.support.loopback import never_answer, serving
from tests.support.score_services import (
    API_KEY,
    PUBLIC_KEY,
    SECRET_KEY,
    Service,
    keeping_scores,
    take_annotations,
    take_batch,
    traced_lines,
)

from agentv.engine.stored.sending import END_WAIT_S

SCORE = ("score", "log.jsonl", "--config", "score.yaml", "--display", "none")


@pytest.fixture(autouse=True)
def log(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LANGFUSE_BASE_URL", "LANGFUSE_HOST", "LANGFUSE_PUBLIC_KEY", "LANGFUSE_SECRET_KEY"):
        monkeypatch.delenv(name, raising=False)
    for name in ("PHOENIX_ENDPOINT", "PHOENIX_COLLECTOR_ENDPOINT", "PHOENIX_HOST", "PHOENIX_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    (project.folder / "log.jsonl").write_text(traced_lines(2))
    (project.folder / "score.yaml").write_text("evaluators: [{name: greets, type: contains, value: Hello}]\n")


@pytest.fixture
def langfuse(monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    with keeping_scores(take_batch) as service:
        monkeypatch.setenv("LANGFUSE_BASE_URL", service.url)
        monkeypatch.setenv("LANGFUSE_PUBLIC_KEY", PUBLIC_KEY)
        monkeypatch.setenv("LANGFUSE_SECRET_KEY", SECRET_KEY)
        yield service


@pytest.fixture
def phoenix(monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    with keeping_scores(take_annotations) as service:
        monkeypatch.setenv("PHOENIX_ENDPOINT", service.url)
        monkeypatch.setenv("PHOENIX_API_KEY", API_KEY)
        yield service


def test_answers_without_a_trace_are_counted_and_named(project: Project, langfuse: Service) -> None:
    untraced = json.dumps({"id": "x", "prompt": "Hi", "response": "Hello"})
    (project.folder / "log.jsonl").write_text(f"{traced_lines(2)}{untraced}\n")
    code, said = project.call(*SCORE, "--export", "langfuse")
    assert code == 0
    assert f"langfuse: 2 results sent to {langfuse.url} (1 not sent: no trace id)\n" in said
    assert len(langfuse.scores) == 2


def test_a_run_of_a_target_without_traces_has_nothing_to_send(project: Project, phoenix: Service) -> None:
    code, said = project.call("run", "suite.yaml", "--export", "phoenix", "--display", "none")
    assert code == 0
    assert f"phoenix: 0 results sent to {phoenix.url} (3 not sent: no trace id)\n" in said
    code, said = project.call("runs", "export", "--export", "phoenix", "--resend", "--json")
    assert code == 5
    assert json.loads(said)["omitted"] == {"no trace id": 3}
    assert not phoenix.requests


def test_a_run_that_was_made_without_the_option_is_sent_later(project: Project, phoenix: Service) -> None:
    project.call(*SCORE)
    assert project.call("runs", "export", "latest", "--export", "phoenix") == (
        0,
        f"phoenix: 2 results sent to {phoenix.url}\n",
    )
    assert len(phoenix.scores) == 2


def test_an_export_of_langfuse_gets_its_scores_back(project: Project, langfuse: Service) -> None:
    log = Path(__file__).parents[1] / "fixtures" / "logs" / "langfuse.jsonl"
    (project.folder / "log.jsonl").write_text(log.read_text())
    (project.folder / "score.yaml").write_text("evaluators: [{name: short, type: length, max: 900}]\n")
    project.call(*SCORE, "--export", "langfuse")
    assert {(score.trace_id, score.span_id) for score in langfuse.scores.values()} == {
        ("4bf92f3577b34da6a3ce929d0e0e4736", "9f3c1d2e5b6a7081"),
        ("4bf92f3577b34da6a3ce929d0e0e4737", "9f3c1d2e5b6a7082"),
        ("4bf92f3577b34da6a3ce929d0e0e4738", ""),
        ("4bf92f3577b34da6a3ce929d0e0e4739", ""),
    }


def test_a_rescored_judgement_replaces_the_first_one(project: Project, phoenix: Service, langfuse: Service) -> None:
    project.call(*SCORE, "--export", "phoenix")
    project.call("runs", "export", "--export", "langfuse")
    evaluators = "evaluators: [{name: greets, type: contains, value: Bye}]\n"
    (project.folder / "score.yaml").write_text(evaluators)
    code, said = project.call(
        "rescore", "latest", "--evaluators", "score.yaml", "--export", "phoenix", "--display", "none"
    )
    assert "phoenix: 2 results sent" in said, (code, said)
    project.call("runs", "export", "--export", "langfuse")
    for service in (phoenix, langfuse):
        assert [score.value for score in service.scores.values()] == [0.0, 0.0]


def test_a_run_is_sent_to_a_collector_and_a_service_at_once(project: Project, phoenix: Service) -> None:
    with collecting() as collector:
        code, said = project.call(*SCORE, "--export", "phoenix", f"--otel={collector.url}")
    assert code == 0
    assert f"otel: 2 results sent to {collector.url}\n" in said
    assert f"phoenix: 2 results sent to {phoenix.url}\n" in said


def test_two_silent_destinations_are_waited_for_as_long_as_one(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(never_answer) as server:
        monkeypatch.setenv("PHOENIX_ENDPOINT", server.url)
        began = time.monotonic()
        _, said = project.call(*SCORE, "--export", "phoenix", f"--otel={server.url}")
        took_s = time.monotonic() - began
    assert said.count("2 unsent") == 2
    assert took_s < 2 * END_WAIT_S


def test_keys_are_read_from_the_env_file(project: Project) -> None:
    with keeping_scores(take_batch) as service:
        keys = f"LANGFUSE_PUBLIC_KEY={PUBLIC_KEY}\nLANGFUSE_SECRET_KEY={SECRET_KEY}\nLANGFUSE_HOST={service.url}\n"
        (project.folder / ".env").write_text(keys)
        code, _ = project.call(*SCORE, "--export", "langfuse")
    assert code == 0
    assert len(service.scores) == 2


def test_reasons_are_sent_on_request_only(project: Project, phoenix: Service) -> None:
    project.call(*SCORE, "--export", "phoenix")
    assert {score.reasons for score in phoenix.scores.values()} == {None}
    project.call("runs", "export", "--export", "phoenix", "--export-reasons")
    assert {score.reasons for score in phoenix.scores.values()} == {'contains "Hello"'}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        pytest.param((*SCORE, "--export", "datadog"), "'langfuse', 'phoenix'", id="unknown"),
        pytest.param((*SCORE, "--export", "langfuse"), "needs LANGFUSE_PUBLIC_KEY", id="no-key"),
        pytest.param((*SCORE, "--export-reasons"), "--export-reasons requires --export", id="reasons-alone"),
        pytest.param((*SCORE, "--export", "phoenix", "--no-store"), "--no-store and --export", id="no-store"),
        pytest.param(("runs", "export", "--export", "phoenix", "--otel"), "exclude each other", id="both"),
        pytest.param(("runs", "export", "--export", "phoenix", "--failed"), "omit -o and the options", id="selection"),
    ],
)
def test_options_that_do_not_fit_are_refused(project: Project, arguments: tuple[str, ...], said: str) -> None:
    code, found = project.call(*arguments)
    assert code == 4
    assert said in found
    assert not list(Path(project.folder).glob(".agentv/runs/*"))
