"""`--cache`: a second run makes no calls, and its rows are marked as cached."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.support.fake_server import serving_fake
from tests.support.loopback import reply, serving
from tests.support.ports import free_port

from agentv import EvalCase, EvaluatorConfig, Message, RunReport, TargetConfig, evaluate
from agentv.fake import FakeServer
from agentv.fake.answers import answer
from agentv.fake.api import Question, Reply
from agentv.types.messages import FilePart, TextPart

JUDGE = EvaluatorConfig("judge", "llm_judge", {})
HAS = EvaluatorConfig("has", "contains", {"value": "said"})
SECRET = "sk-canary-0123456789"


@pytest.fixture
def server() -> Iterator[FakeServer]:
    with serving_fake(keep_requests=True) as server:
        yield server


def target(server: FakeServer, **settings: Any) -> TargetConfig:
    model = {"model": "m", "base_url": f"{server.url}/v1", "api_key": SECRET}
    price = {"input_per_million": 10, "output_per_million": 20}
    return TargetConfig("fake", "openai", {**model, "price": price, **settings})


def case(name: str, said: str | None = None, **fields: Any) -> EvalCase:
    return EvalCase(name, (Message("user", said or f"question {name}"),), expected_outcome="an answer", **fields)


def run(
    server: FakeServer, folder: Path, *cases: EvalCase, judges: tuple[EvaluatorConfig, ...] = (HAS,), **options: Any
) -> RunReport:
    called = options.pop("target", None) or target(server)
    options = {"cache": "on", "gates": "none", **options}
    return evaluate(list(cases), target=called, evaluators=list(judges), folder=folder, **options)


def stored(report: RunReport, name: str) -> list[dict[str, Any]]:
    assert report.folder is not None
    return [json.loads(line) for line in (Path(report.folder) / name).read_text().splitlines()]


def test_a_second_run_makes_no_call_at_all_judges_included(server: FakeServer, tmp_path: Path) -> None:
    cases = [case(name) for name in "abc"]
    judges = (replace(JUDGE, settings={"samples": 3}), HAS)
    first = run(server, tmp_path, *cases, judges=judges, trials=2, workers=4)
    made = len(server.calls)
    second = run(server, tmp_path, *cases, judges=judges, trials=2, workers=4)
    assert (made, len(server.calls)) == (3 * 2 * (1 + 3), made)
    assert len(first.results) == len(second.results) == 6
    rows = [{(row.slot, row.score, row.candidate_answer) for row in report.results} for report in (first, second)]
    assert rows[0] == rows[1]
    assert not any(row.error for row in second.results)


def test_a_cached_row_is_marked_and_keeps_its_first_latency_and_cost(server: FakeServer, tmp_path: Path) -> None:
    first = run(server, tmp_path, case("a"), judges=(JUDGE,))
    second = run(server, tmp_path, case("a"), judges=(JUDGE,))
    (before,), (after,) = stored(first, "answers.jsonl"), stored(second, "answers.jsonl")
    assert after["cached"]["run_id"] == first.run_id
    assert set(after["cached"]) == {"key", "at", "run_id"}
    assert (after["billed_usd"], after["cost_usd"]) == (0.0, before["cost_usd"])
    assert before["billed_usd"] == before["cost_usd"] > 0
    assert after["duration_ms"] == pytest.approx(before["duration_ms"], abs=50)
    assert "calls" not in after
    (old,), (row,) = first.results, second.results
    assert (old.cached, row.cached) == (False, True)
    assert [call.cached for call in row.evaluator_results[0].judge_calls] == [True]
    (spent,), (saved,) = first.targets, second.targets
    assert spent.saved_usd == 0.0
    assert saved.saved_usd == pytest.approx((saved.target_cost_usd or 0) + (saved.judge_cost_usd or 0))
    assert saved.target_cost_usd == spent.target_cost_usd


@pytest.mark.parametrize(
    "change",
    [
        {"temperature": 0.5},
        {"model": "other"},
        {"system_prompt": "Be brief."},
        {"max_output_tokens": 10},
    ],
)
def test_another_setting_is_another_question(change: dict[str, Any], server: FakeServer, tmp_path: Path) -> None:
    run(server, tmp_path, case("a"))
    run(server, tmp_path, case("a"), target=target(server, **change))
    assert len(server.calls) == 2


@pytest.mark.parametrize("change", [{"workers": 3}, {"maxRetries": 9}, {"api_key": "sk-another-key-123"}])
def test_who_pays_and_how_fast_is_no_part_of_a_question(
    change: dict[str, Any], server: FakeServer, tmp_path: Path
) -> None:
    run(server, tmp_path, case("a"))
    run(server, tmp_path, case("b", "question a"), target=target(server, **change))
    assert len(server.calls) == 1


def test_a_changed_picture_is_another_question(server: FakeServer, tmp_path: Path) -> None:
    picture = tmp_path / "a.png"

    def case_with(content: bytes) -> EvalCase:
        picture.write_bytes(content)
        part = FilePart("a.png", str(picture), None, "", len(content), "image/png")
        return EvalCase("a", (Message("user", (TextPart("What is it?"), part)),), expected_outcome="x")

    for content in (b"\x89PNG one", b"\x89PNG two", b"\x89PNG one"):
        run(server, tmp_path, case_with(content))
    assert len(server.calls) == 2


def test_equal_questions_of_one_run_each_have_an_answer_of_their_own(server: FakeServer, tmp_path: Path) -> None:
    cases = [case(name, "the same") for name in "abc"]
    for _ in range(2):
        run(server, tmp_path, *cases, trials=2, workers=6)
    assert len(server.calls) == 6


def test_read_uses_what_is_there_and_keeps_nothing(server: FakeServer, tmp_path: Path) -> None:
    run(server, tmp_path, case("a"), cache="read")
    assert not (tmp_path / "cache").exists()
    run(server, tmp_path, case("a"))
    run(server, tmp_path, case("a"), cache="read")
    run(server, tmp_path, case("b"), cache="read")
    run(server, tmp_path, case("b"), cache="read")
    assert len(server.calls) == 4


def test_an_answer_above_the_maximum_age_is_called_again(server: FakeServer, tmp_path: Path) -> None:
    made = []
    for most in (None, 86400.0, 1e-6):
        run(server, tmp_path, case("a"), cache_max_age_s=most)
        made.append(len(server.calls))
    assert made == [1, 1, 2]


def test_without_a_cache_every_case_is_called(server: FakeServer, tmp_path: Path) -> None:
    for cache in ("on", "off"):
        (row,) = run(server, tmp_path, case("a"), cache=cache).results
        assert not row.cached
    assert len(server.calls) == 2


def test_a_failure_is_not_kept(tmp_path: Path) -> None:
    with serving_fake() as server:
        broken = target(server, model="m@500", max_retries=0)
        for _ in range(2):
            (row,) = run(server, tmp_path, case("a"), target=broken).results
            assert row.status == "error"
        assert len(server.calls) == 2
        assert not (tmp_path / "cache").exists()


def test_target_that_works_in_folders_is_not_cached_and_noted(tmp_path: Path) -> None:
    program = TargetConfig("c", "cli", {"command_template": "echo said"}, base_dir=str(tmp_path))
    for _ in range(2):
        report = evaluate([case("a")], target=program, evaluators=[HAS], folder=tmp_path / ".agentv", cache="on")
        assert not report.results[0].cached
        assert any("called every time" in note for note in report.notes)


def test_no_secret_gets_into_the_cache(tmp_path: Path) -> None:
    def leaks(question: Question) -> Reply:
        return replace(answer(question), text=f"said {SECRET}")

    with serving_fake(answer=leaks) as server:
        first = run(server, tmp_path, case("a"))
        second = run(server, tmp_path, case("a"))
    (file,) = (path for path in (tmp_path / "cache").rglob("*") if path.is_file())
    assert SECRET not in file.read_text()
    assert first.results[0].candidate_answer == second.results[0].candidate_answer == "said ***"
    assert file.stat().st_mode & 0o077 == 0


def test_the_nonce_in_a_candidate_is_no_nonce(server: FakeServer, tmp_path: Path) -> None:
    """Only a judge's request has a nonce: the metadata of a case is data."""
    for word in ("blue0000", "green000"):
        run(server, tmp_path, case("a", f"say {word}", metadata={"nonce": word}))
    assert len(server.calls) == 2


def test_a_kept_reply_is_read_by_the_nonce_that_it_was_made_with(tmp_path: Path) -> None:
    """A judge that first reasons in JSON: only the object with the nonce is its verdict."""

    def thinks_aloud(question: Question) -> Reply:
        reply = answer(question)
        draft = '{"score": 0.01, "hits": [], "misses": [], "reasoning": "a draft"}\n'
        return replace(reply, text=draft + reply.text) if '"nonce"' in reply.text else reply

    with serving_fake(answer=thinks_aloud) as server:
        rows = [run(server, tmp_path, case("a"), judges=(JUDGE,)).results[0] for _ in range(2)]
        assert len(server.calls) == 2
    assert rows[0].score == rows[1].score != 0.01
    assert [row.evaluator_results[0].status for row in rows] == ["scored", "scored"]


def test_a_cached_score_off_its_scale_is_replaced_by_a_new_one(tmp_path: Path) -> None:
    said = ["10", "10", "0.9"]

    def scores(question: Question) -> Reply:
        given = answer(question)
        found = re.sub(r'"score":[0-9.]+', lambda _: f'"score":{said.pop(0)}', given.text)
        return replace(given, text=found) if '"nonce"' in given.text else given

    with serving_fake(answer=scores) as server:
        rows = [run(server, tmp_path, case("a"), judges=(JUDGE,)).results[0] for _ in range(3)]
        assert len(server.calls) == 1 + 2 + 1
    results = [row.evaluator_results[0] for row in rows]
    assert [(result.status, result.score) for result in results] == [("error", 1.0), ("scored", 0.9), ("scored", 0.9)]
    assert [[call.cached for call in result.judge_calls] for result in results] == [[False, False], [False], [True]]


def test_answers_of_web_services_are_cached_per_case(tmp_path: Path) -> None:
    with serving(reply('{"text": "said it"}', headers={"Content-Type": "application/json"})) as service:
        web = TargetConfig("service", "http", {"url": f"{service.url}/ask", "body": {"q": "{{ question }}"}})
        reports = [
            evaluate(
                [case("a", "the same"), case("b", "the same")],
                target=web,
                evaluators=[HAS],
                folder=tmp_path,
                cache="on",
            )
            for _ in range(2)
        ]
        assert len(service.requests) == 2
    assert [[row.cached for row in report.results] for report in reports] == [[False, False], [True, True]]
    assert not any(row.error for report in reports for row in report.results)


def test_what_redact_names_gets_into_no_cache(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / ".agentv.yaml").write_text("redact: ['order \\d+']\n")
    with serving_fake() as server:
        (tmp_path / "targets.yaml").write_text(
            f"targets: [{{name: fake, provider: openai, model: m, base_url: '{server.url}/v1'}}]"
        )
        (tmp_path / "suite.yaml").write_text(
            "execution: {target: fake, evaluators: [{name: has, type: contains, value: said}]}\n"
            "evalcases: [{id: a, expected_outcome: x, input_messages: [{role: user, content: Where is order 4711?}]}]\n"
        )
        for _ in range(2):
            report = evaluate(tmp_path / "suite.yaml", folder=tmp_path / ".agentv", cache="on")
            assert report.results[0].candidate_answer == "You said: Where is ***?"
        assert len(server.calls) == 1
    (file,) = (path for path in (tmp_path / ".agentv" / "cache").rglob("*") if path.is_file())
    assert "4711" not in file.read_text()


def test_an_answer_whose_spans_are_missing_is_not_cached(tmp_path: Path) -> None:
    """A later run would get it without tool calls, and without a word about that."""
    with serving(reply('{"text": "said it"}', headers={"Content-Type": "application/json"})) as service:
        settings: dict[str, Any] = {"url": f"{service.url}/ask", "body": {"q": "{{ question }}"}}
        otel: dict[str, Any] = {"otel": True, "otel_wait_s": 0, "otel_listen": f"127.0.0.1:{free_port()}"}
        web = TargetConfig("service", "http", {**settings, **otel})
        for _ in range(2):
            evaluate([case("a")], target=web, evaluators=[HAS], folder=tmp_path, cache="on")
        assert len(service.requests) == 2
