"""What holds for every destination of results: OpenTelemetry collectors, Langfuse and Phoenix."""

import logging
import re
import shlex
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from msgspec import Struct
from tests.support.collectors import collecting
from tests.support.loopback import Answer, hang_up, never_answer, serving
from tests.support.proxy import proxying
from tests.support.score_services import (
    API_KEY,
    PUBLIC_KEY,
    SECRET_KEY,
    Refuse,
    Take,
    keeping_scores,
    take_annotations,
    take_batch,
    traced_lines,
)

from agentv import Sampler
from agentv.cli.main import main
from agentv.engine.stored.sending import END_WAIT_S

DEAD = "http://127.0.0.1:9"
HEADER = "s3same-0tel-0pen"


class Place(Struct):
    """A destination that is served."""

    url: str
    judgements: Callable[[], set[tuple[str, ...]]]
    """The identities of the judgements that it keeps."""


class Kind(Struct):
    """A kind of destination: how it is served, and how it is named."""

    name: str
    serve: Callable[[Refuse], AbstractContextManager[Place]]
    option: str
    """With {url} where it takes one."""
    variables: Mapping[str, str]
    secret: str

    def options(self, url: str) -> tuple[str, ...]:
        return tuple(self.option.format(url=url).split())

    def keywords(self, url: str) -> dict[str, Any]:
        """The arguments of a sampler that name the destination."""
        return {"otel": url} if self.name == "otel" else {"export": self.name}


@contextmanager
def collector(refuse: Refuse) -> Iterator[Place]:
    with collecting(lambda request, _: refuse(request)) as taken:
        yield Place(taken.url, lambda: {(span.span_id,) for span in taken.evaluations()})


def service(take: Take) -> Callable[[Refuse], AbstractContextManager[Place]]:
    @contextmanager
    def serve(refuse: Refuse) -> Iterator[Place]:
        with keeping_scores(take, refuse) as kept:
            yield Place(kept.url, lambda: set(kept.scores))

    return serve


KINDS = (
    Kind("otel", collector, "--otel={url}", {"OTEL_EXPORTER_OTLP_HEADERS": f"x-api-key={HEADER}"}, HEADER),
    Kind(
        "langfuse",
        service(take_batch),
        "--export langfuse",
        {"LANGFUSE_BASE_URL": "{url}", "LANGFUSE_PUBLIC_KEY": PUBLIC_KEY, "LANGFUSE_SECRET_KEY": SECRET_KEY},
        SECRET_KEY,
    ),
    Kind(
        "phoenix",
        service(take_annotations),
        "--export phoenix",
        {"PHOENIX_ENDPOINT": "{url}", "PHOENIX_API_KEY": API_KEY},
        API_KEY,
    ),
)


@pytest.fixture(params=KINDS, ids=lambda kind: kind.name)
def kind(request: pytest.FixtureRequest) -> Kind:
    found: Kind = request.param
    return found


class Project(Struct):
    """A log of three answers, each judged twice, and the command line on it."""

    folder: Path
    kind: Kind
    monkeypatch: pytest.MonkeyPatch
    capsys: pytest.CaptureFixture[str]

    def name(self, url: str) -> tuple[str, ...]:
        """Set the variables of the destination, and return the options that name it."""
        for name, value in self.kind.variables.items():
            self.monkeypatch.setenv(name, value.format(url=url))
        return self.kind.options(url)

    def call(self, *arguments: str) -> tuple[int, str]:
        """Call `agentv`; return its exit code and what it says."""
        with pytest.raises(SystemExit) as left:
            main(arguments)
        said = self.capsys.readouterr()
        return int(left.value.code or 0), said.out + said.err

    def score(self, *options: str) -> tuple[int, str]:
        return self.call("score", "log.jsonl", "--config", "score.yaml", "--display", "none", *options)

    def later(self, said: str) -> tuple[int, str]:
        """Call the command that the end line names."""
        (command,) = re.findall(r"send (?:them later|all again): agentv (.+)", said)
        return self.call(*shlex.split(command))


@pytest.fixture
def project(kind: Kind, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Project:
    (tmp_path / ".git").mkdir()
    (tmp_path / "log.jsonl").write_text(traced_lines(3))
    evaluators = "[{name: greets, type: contains, value: Hello}, {name: short, type: length, max: 9}]"
    (tmp_path / "score.yaml").write_text(f"evaluators: {evaluators}\n")
    monkeypatch.chdir(tmp_path)
    for name in ("OTEL_EXPORTER_OTLP_ENDPOINT", "LANGFUSE_HOST", "PHOENIX_COLLECTOR_ENDPOINT", "PHOENIX_HOST"):
        monkeypatch.delenv(name, raising=False)
    return Project(tmp_path, kind, monkeypatch, capsys)


def taking(_: web.Request) -> web.Response | None:
    return None


def test_each_judgement_arrives_and_the_end_line_counts_it(kind: Kind, project: Project) -> None:
    with kind.serve(taking) as place:
        code, said = project.score(*project.name(place.url))
        assert code == 0
        assert f"{kind.name}: 3 results sent to {place.url}\n" in said
        assert len(place.judgements()) == 6


def test_what_is_sent_twice_is_stored_once(kind: Kind, project: Project) -> None:
    with kind.serve(taking) as place:
        options = project.name(place.url)
        project.score(*options)
        first = place.judgements()
        assert project.call("runs", "export", *options) == (
            0,
            f"{kind.name}: nothing more to send to {place.url}\n",
        )
        code, said = project.call("runs", "export", *options, "--resend")
        assert (code, said) == (0, f"{kind.name}: 3 results sent to {place.url}\n")
        assert place.judgements() == first


def test_a_dead_destination_changes_nothing_but_the_end_line(kind: Kind, project: Project) -> None:
    code, said = project.score(*project.name(DEAD))
    assert code == 0
    assert f"{kind.name}: 0 results sent to {DEAD}, 3 unsent (connection refused)\n" in said
    code, said = project.later(said)
    assert code == 3
    assert "3 unsent" in said


@pytest.mark.parametrize("answer", [pytest.param(never_answer, id="silent"), pytest.param(hang_up, id="resets")])
def test_the_end_waits_for_a_bad_destination_only_so_long(project: Project, answer: Answer) -> None:
    with serving(answer) as server:
        began = time.monotonic()
        code, said = project.score(*project.name(server.url))
        took_s = time.monotonic() - began
    assert code == 0
    assert "0 results sent" in said
    assert "3 unsent" in said
    assert took_s < END_WAIT_S + 7  # a loaded machine


@pytest.mark.parametrize("status", [302, 401, 405, 422, 429, 500, 503])
def test_a_refusing_destination_gets_the_rest_later(kind: Kind, project: Project, status: int) -> None:
    is_refusing = True

    def refuse(_: web.Request) -> web.Response | None:
        headers = {"Retry-After": "600"} if status == 429 else {}
        return web.Response(status=status, headers=headers) if is_refusing else None

    with kind.serve(refuse) as place:
        code, said = project.score(*project.name(place.url))
        assert code == 0
        assert f"0 results sent to {place.url}, 3 unsent (HTTP {status}" in said
        is_refusing = False
        code, said = project.later(said)
        assert (code, said) == (0, f"{kind.name}: 3 results sent to {place.url}\n")
        assert len(place.judgements()) == 6


def test_a_smaller_request_follows_one_that_is_too_large(kind: Kind, project: Project) -> None:
    limit = 0

    def refuse(request: web.Request) -> web.Response | None:
        nonlocal limit
        limit = limit or (request.content_length or 0)
        return web.Response(status=413) if (request.content_length or 0) >= limit else None

    with kind.serve(refuse) as place:
        code, said = project.score(*project.name(place.url))
        assert code == 0
        assert f"3 results sent to {place.url}\n" in said
        assert len(place.judgements()) == 6


def test_a_result_that_is_always_too_large_is_dropped_and_counted(kind: Kind, project: Project) -> None:
    with kind.serve(lambda _: web.Response(status=413)) as place:
        code, said = project.score(*project.name(place.url))
    assert code == 0
    assert "0 results sent" in said
    assert "3 " in said.partition("dropped by")[0]
    assert "too large" in said


def test_secrets_are_sent_and_stand_nowhere_else(kind: Kind, project: Project) -> None:
    received: list[str] = []

    def refuse(request: web.Request) -> web.Response | None:
        received.append(str(request.headers))
        return web.Response(status=400, text=f"bad key {kind.secret}")

    with kind.serve(refuse) as place:
        _, said = project.score(*project.name(place.url))
        _, more = project.call("runs", "export", *project.name(place.url), "--json")
    assert received
    assert kind.secret not in said + more
    for path in (project.folder / ".agentv").rglob("*"):
        assert not path.is_file() or kind.secret.encode() not in path.read_bytes(), path


def test_the_address_is_shown_without_its_credentials(kind: Kind, project: Project) -> None:
    with kind.serve(taking) as place:
        code, said = project.score(*project.name(place.url.replace("http://", "http://me:hush@")))
    assert code == 0
    assert f" {place.url}" in said
    assert "hush" not in said


def test_a_destination_is_reached_through_a_proxy(kind: Kind, project: Project) -> None:
    with kind.serve(taking) as place, proxying(int(place.url.rpartition(":")[2])) as proxy:
        project.monkeypatch.setenv("HTTP_PROXY", f"http://{proxy.address}")
        project.monkeypatch.delenv("NO_PROXY", raising=False)
        code, said = project.score(*project.name("http://judgements.example:4318"))
        assert code == 0
        assert f"{kind.name}: 3 results sent to http://judgements.example:4318\n" in said
        assert len(place.judgements()) == 6


CONFIG = {"evaluators": [{"type": "contains", "name": "greets", "value": "Hello"}]}


def test_a_sampler_sends_each_judgement(kind: Kind, project: Project, caplog: pytest.LogCaptureFixture) -> None:
    with kind.serve(taking) as place:
        project.name(place.url)
        with caplog.at_level(logging.WARNING, "agentv"), Sampler(CONFIG, **kind.keywords(place.url)) as sampler:
            for line in traced_lines(20).splitlines():
                sampler.offer(line)
        assert (sampler.stats.judged, len(place.judgements())) == (20, 20)
    assert caplog.records == []


def test_a_sampler_names_what_a_dead_destination_lacks(
    kind: Kind, project: Project, caplog: pytest.LogCaptureFixture
) -> None:
    project.name(DEAD)
    with caplog.at_level(logging.WARNING, "agentv"), Sampler(CONFIG, **kind.keywords(DEAD)) as sampler:
        sampler.offer(traced_lines(1).strip())
    assert sampler.stats.judged == 1
    (record,) = caplog.records
    assert record.getMessage().startswith(f"sampler: 1 result unsent to {DEAD} (connection refused); send them later:")
    with kind.serve(taking) as place:
        options = project.name(place.url)
        assert project.call("runs", "export", *options, str(sampler.run_id))[0] == 0
        assert len(place.judgements()) == 1


def test_a_sampler_sends_to_a_collector_and_a_service(kind: Kind, project: Project) -> None:
    with kind.serve(taking) as place, collecting() as collected:
        project.name(place.url)
        with Sampler(CONFIG, **{**kind.keywords(place.url), "otel": collected.url}) as sampler:
            sampler.offer(traced_lines(1).strip())
        assert len(collected.evaluations()) == 1
        assert kind.name == "otel" or len(place.judgements()) == 1


def test_a_sampler_names_answers_without_a_trace_that_a_service_cannot_take(
    kind: Kind, project: Project, caplog: pytest.LogCaptureFixture
) -> None:
    with kind.serve(taking) as place:
        project.name(place.url)
        with caplog.at_level(logging.WARNING, "agentv"), Sampler(CONFIG, **kind.keywords(place.url)) as sampler:
            sampler.offer({"id": "1", "prompt": "Hi", "response": "Hello"})
        said = [record.getMessage() for record in caplog.records]
        expected = [] if kind.name == "otel" else [f"sampler: 1 result not sent to {place.url}: no trace id"]
        assert said == expected
