"""The sampler of services: which lines it takes, what it does with too many, and how it ends."""

import asyncio
import json
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.fake_server import serving_fake

from agentv import AggregatedEvaluationResult, EvaluationInput, EvaluationRunConfig, Sampler, TargetConfig
from agentv.cli.main import main
from agentv.engine.criteria.sampler import SamplerStats
from agentv.scoring.counting.sampling import make_sample
from agentv.types.errors import ConfigError, EvalFileError

CONFIG = EvaluationRunConfig(evaluators=[{"type": "contains", "value": "Paris"}])


def line(number: int, **fields: Any) -> dict[str, Any]:
    return {"id": f"a{number}", "session_id": f"s{number // 3}", "prompt": "Capital?", "response": "Paris", **fields}


class Results:
    """Collects judgements."""

    def __init__(self) -> None:
        self.all: list[AggregatedEvaluationResult] = []

    def __call__(self, result: AggregatedEvaluationResult) -> None:
        self.all.append(result)

    @property
    def ids(self) -> list[str]:
        return sorted(str(each.input_snapshot.id) for each in self.all)


class Held:
    """An evaluator that waits until it is released."""

    kind = "held"

    def __init__(self) -> None:
        self.release = threading.Event()
        self.began = threading.Event()

    def evaluate(self, _context: object) -> float:
        self.began.set()
        self.release.wait(20)
        return 1.0


@pytest.fixture
def held() -> Iterator[Held]:
    held = Held()
    yield held
    held.release.set()


@pytest.mark.parametrize("by", ["session_id", None])
@pytest.mark.parametrize("share", ["20%", "0.35"])
def test_it_takes_the_same_lines_as_the_command(
    tmp_path: Path, share: str, by: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [json.dumps(line(number)) for number in range(120)]
    log, config, scores = tmp_path / "log.jsonl", tmp_path / "config.yaml", tmp_path / "scores.jsonl"
    log.write_text("\n".join(lines))
    config.write_text("evaluators: [{type: contains, value: Paris}]")
    options = ["--sample", share, "--seed", "3", *([] if by is None else ["--sample-by", by])]
    with pytest.raises(SystemExit):
        main(["score", str(log), "--config", str(config), "-o", str(scores), *options])
    capsys.readouterr()
    by_command = sorted(json.loads(each)["inputSnapshot"]["id"] for each in scores.read_text().splitlines())
    results = Results()
    with Sampler(CONFIG, sample=share, by=by, seed=3, on_result=results) as sampler:
        taken = [sampler.offer(each) for each in lines]
    assert 0 < len(by_command) < len(lines)
    assert results.ids == by_command
    assert taken.count(True) == len(by_command)


def test_a_dict_and_an_input_of_a_session_are_sampled_alike() -> None:
    results = Results()
    with Sampler(CONFIG, sample=0.3, by="session_id", on_result=results) as sampler:
        for number in range(60):
            same = EvaluationInput(response="Paris", prompt="Capital?", session_id=f"s{number // 3}", id=f"a{number}")
            assert sampler.offer(line(number)) == sampler.offer(same)
    assert results.ids[::2] == results.ids[1::2] != []


def test_an_input_without_a_key_is_sampled_by_its_dict() -> None:
    inputs = [EvaluationInput("Paris", id=f"a{number}") for number in range(40)]
    with Sampler(CONFIG, sample=0.5) as sampler:
        taken = [sampler.offer(each) for each in inputs]
        assert taken == [sampler.offer(each.to_dict()) for each in inputs]
    assert 0 < sum(taken) < len(inputs)
    assert sampler.stats.unreadable == 0


@cache
def closed_sampler() -> Sampler:
    """Return a sampler that decides on lines and judges none."""
    with Sampler(CONFIG, sample=0.5, by="session_id") as sampler:
        return sampler


@given(st.lists(st.text(), min_size=1, max_size=50))
def test_sessions_with_any_name_are_sampled_as_by_the_command(names: list[str]) -> None:
    sampler, sample = closed_sampler(), make_sample("0.5", by="session_id", seed=0)
    for name in names:
        offered = {"session_id": name, "response": "x"}
        sampled = sampler.stats.sampled
        sampler.offer(offered)
        key = sample.key_of(offered)
        assert key is not None
        assert sampler.stats.sampled - sampled == sample.includes(sample.hash_of(key))


def test_a_line_may_be_changed_after_it_was_offered() -> None:
    results, offered = Results(), line(1, metadata={"model": "small"})
    with Sampler(CONFIG, on_result=results, extra="metadata") as sampler:
        sampler.offer(offered)
        offered["metadata"]["model"] = "changed"
        offered["response"] = "changed"
    assert [(each.input_snapshot.text, each.input_snapshot.metadata["model"]) for each in results.all] == [
        ("Paris", "small")
    ]


def test_a_full_queue_drops_lines_and_counts_them(held: Held, caplog: pytest.LogCaptureFixture) -> None:
    config = EvaluationRunConfig(evaluators=[held])
    with Sampler(config, queue=2, workers=1) as sampler:
        assert sampler.offer(line(0))
        assert held.began.wait(10)
        assert [sampler.offer(line(number)) for number in range(1, 6)] == [True, True, False, False, False]
        assert sampler.stats == SamplerStats(offered=6, sampled=6, dropped=3, pending=3)
        held.release.set()
    assert sampler.stats == SamplerStats(offered=6, sampled=6, dropped=3, judged=3)
    assert "3 lines dropped because 2 wait already" in caplog.text


def test_put_waits_for_a_place(held: Held) -> None:
    async def run() -> SamplerStats:
        async with Sampler(EvaluationRunConfig(evaluators=[held]), queue=1, workers=1) as sampler:
            await sampler.put(line(0))
            await asyncio.to_thread(held.began.wait, 10)
            await sampler.put(line(1))
            waiting = asyncio.create_task(sampler.put(line(2)))
            done, _ = await asyncio.wait([waiting], timeout=0.05)
            assert not done
            held.release.set()
            async with asyncio.timeout(20):
                assert await waiting
        return sampler.stats

    assert asyncio.run(run()) == SamplerStats(offered=3, sampled=3, judged=3)


def test_put_into_a_closed_sampler_counts_a_dropped_line() -> None:
    with Sampler(CONFIG) as sampler:
        pass
    assert not asyncio.run(sampler.put(line(0)))
    assert sampler.stats == SamplerStats(offered=1, sampled=1, dropped=1)


def test_lines_that_are_not_judged_in_time_are_counted_as_lost(held: Held, caplog: pytest.LogCaptureFixture) -> None:
    sampler = Sampler(EvaluationRunConfig(evaluators=[held]), workers=1, flush_s=0.2)
    with sampler:
        for number in range(3):
            sampler.offer(line(number))
        assert held.began.wait(10)
    assert (sampler.stats.judged, sampler.stats.lost, sampler.stats.pending) == (0, 3, 0)
    assert "3 lines were not judged within 0.2 s of closing" in caplog.text
    assert not sampler.offer(line(4))


def test_errors_go_to_the_log(caplog: pytest.LogCaptureFixture) -> None:
    class Broken:
        kind = "broken"

        def save_result(self, _result: object) -> None:
            raise OSError("the disk is full")

    def fails(_context: object) -> float:
        raise ValueError("no idea")

    config = EvaluationRunConfig(evaluators=[fails], storage=Broken())
    with Sampler(config) as sampler:
        sampler.offer(line(1))
        sampler.offer({"id": "x", "reply": "Paris"})
        sampler.offer({"response": object()})
    found = [(each.levelno, each.getMessage()) for each in caplog.records if each.name == "agentv"]
    assert (logging.ERROR, "sampler: broken: the result was not saved: the disk is full") in found
    assert any(level == logging.WARNING and "no idea" in message for level, message in found)
    assert any(level == logging.WARNING and "a line cannot be judged" in message for level, message in found)
    assert any(level == logging.WARNING and "a line cannot be read" in message for level, message in found)
    assert sampler.stats == SamplerStats(offered=3, sampled=3, judged=1, unreadable=2)


def test_the_judge_is_a_model_and_its_connections_stay_open() -> None:
    results = Results()
    with serving_fake() as server:
        judge = TargetConfig("judge", "openai", {"base_url": f"{server.url}/v1", "api_key": "sk-none", "model": "fake"})
        config = EvaluationRunConfig(evaluators=[{"type": "llm_judge", "criterion": "polite"}], judge=judge)
        with Sampler(config, on_result=results, workers=4) as sampler:
            for number in range(12):
                sampler.offer(line(number))
    assert sampler.stats.judged == len(results.all) == 12
    assert all(each.overall_score is not None for each in results.all)


def test_lines_are_judged_before_the_program_ends(tmp_path: Path) -> None:
    program = (
        "import agentv\n"
        "config = agentv.EvaluationRunConfig(evaluators=[{'type': 'contains', 'value': 'Paris'}],\n"
        "    storage={'type': 'json_file', 'path': 'judged.jsonl'})\n"
        "sampler = agentv.Sampler(config)\n"
        "for n in range(50): sampler.offer({'id': str(n), 'prompt': 'q', 'response': 'Paris'})\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert len((tmp_path / "judged.jsonl").read_text().splitlines()) == 50


def test_other_threads_get_the_interpreter_between_the_steps_of_judging() -> None:
    # Nothing but the sampler itself releases the interpreter to the thread that counts; 10 lines are one step.
    program = (
        "import sys, time, agentv\n"
        "sys.setswitchinterval(1000)\n"
        "with agentv.Sampler({'evaluators': [{'type': 'contains', 'value': 'Paris'}]}, queue=2000, workers=10) as s:\n"
        "    for n in range(2000): s.offer({'id': str(n), 'prompt': 'q', 'response': 'Paris'})\n"
        "    seen = set()\n"
        "    while s.stats.judged < 2000:\n"
        "        time.sleep(0)\n"
        "        seen.add(s.stats.judged)\n"
        "print(len(seen))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert int(done.stdout) > 100


def test_a_judge_may_be_a_program() -> None:
    results = Results()
    script = [sys.executable, "-c", "print('{\"score\": 0.5}')"]
    with Sampler({"evaluators": [{"type": "code_judge", "script": script}]}, on_result=results) as sampler:
        sampler.offer(line(0))
    assert [each.overall_score for each in results.all] == [0.5]


@pytest.mark.parametrize("options", [{"sample": 0}, {"sample": 2.0}, {"sample": "100"}, {"queue": 0}, {"workers": 0}])
def test_wrong_options_are_refused_when_it_is_made(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        Sampler(CONFIG, **options)
    with pytest.raises(EvalFileError, match="did you mean 'contains'"):
        Sampler({"evaluators": [{"type": "contain", "value": "x"}]})


class Uncopyable:
    """An object whose copies fail."""

    def __deepcopy__(self, _memo: object) -> None:
        raise LookupError("no copies")


def test_a_judgement_that_fails_is_counted_and_logged_as_such(caplog: pytest.LogCaptureFixture) -> None:
    results = Results()
    metadata: Any = {"x": Uncopyable()}
    config = EvaluationRunConfig(evaluators=[{"type": "contains", "value": "Paris"}], metadata=metadata)
    with Sampler(config, on_result=results) as sampler:
        sampler.offer(line(1))
    assert (sampler.stats, results.all) == (SamplerStats(offered=1, sampled=1, failed=1), [])
    assert [each.getMessage() for each in caplog.records if "on_result" in each.getMessage()] == []
    assert any("no copies" in each.getMessage() for each in caplog.records)


def test_an_object_that_cannot_be_copied_is_an_unreadable_line(caplog: pytest.LogCaptureFixture) -> None:
    given = EvaluationInput("Paris", session_id="s", metadata={"x": Uncopyable()})  # type: ignore[dict-item]
    with Sampler(CONFIG, by="session_id") as sampler:
        assert not sampler.offer(given)
    assert sampler.stats == SamplerStats(offered=1, sampled=1, unreadable=1)
    assert "no copies" in caplog.text


def test_on_result_that_exits_ends_nothing(caplog: pytest.LogCaptureFixture) -> None:
    def leaves(_result: object) -> None:
        sys.exit(3)

    with Sampler(CONFIG, on_result=leaves, workers=1) as sampler:
        for number in range(3):
            sampler.offer(line(number))
    assert sampler.stats.judged == 3
    assert caplog.text.count("on_result failed") == 3


def test_after_its_thread_has_died_the_next_line_starts_it_again(caplog: pytest.LogCaptureFixture) -> None:
    results, release = Results(), threading.Event()

    def dies_once(result: AggregatedEvaluationResult) -> None:
        results(result)
        if len(results.all) == 1:
            release.wait(20)
            raise KeyboardInterrupt

    sampler = Sampler(CONFIG, on_result=dies_once, workers=1, queue=1)
    sampler.start()
    (thread,) = [each for each in threading.enumerate() if each.name == "agentv-sampler"]
    assert sampler.offer(line(1))
    while sampler.stats.judged == 0:
        thread.join(0.01)
    assert sampler.offer(line(2))
    release.set()
    thread.join(20)
    assert sampler.stats == SamplerStats(offered=2, sampled=2, judged=1, lost=1)
    assert "stopped with 1 lines that were not judged" in caplog.text

    async def put() -> bool:
        return await asyncio.wait_for(sampler.put(line(3)), 20)

    assert asyncio.run(put())
    sampler.close()
    assert results.ids == ["a1", "a3"]
    assert sampler.stats == SamplerStats(offered=3, sampled=3, judged=2, lost=1)


def test_messages_name_the_number_of_the_line(held: Held, caplog: pytest.LogCaptureFixture) -> None:
    with Sampler(EvaluationRunConfig(evaluators=[held]), workers=1) as sampler:
        sampler.offer(line(1))
        assert held.began.wait(20)
        for wrong in ("first", "second"):
            sampler.offer({"id": wrong, "reply": "Paris"})
        held.release.set()
    places = [each.getMessage() for each in caplog.records if "cannot be judged" in each.getMessage()]
    assert ["sampler:2" in places[0], "sampler:3" in places[1]] == [True, True], places


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.parametrize("begun", ["sampler.start()", "pass", "sampler.start(); sampler.close()"])
def test_a_forked_process_judges_its_own_lines(begun: str) -> None:
    program = (
        "import agentv, os, sys\n"
        "config = agentv.EvaluationRunConfig(evaluators=[{'type': 'contains', 'value': 'Paris'}])\n"
        "sampler = agentv.Sampler(config, queue=1)\n"
        f"{begun}\n"
        "child = os.fork()\n"
        "taken = sampler.offer({'id': '1', 'prompt': 'q', 'response': 'Paris'})\n"
        "sampler.close()\n"
        "found = (taken, sampler.stats.judged, sampler.stats.pending)\n"
        "if child: os.waitpid(child, 0)\n"
        "print(found, flush=True)\n"
        "if not child: os._exit(0)\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True, timeout=60, check=False
    )
    expected = "(False, 0, 0)" if "close" in begun else "(True, 1, 0)"
    assert done.stdout.splitlines() == [expected, expected], done.stderr


def test_a_sampler_shows_its_share_and_its_counts() -> None:
    sampler = Sampler({"evaluators": [{"type": "contains", "value": "Paris"}]}, sample=0.25, by="session_id")
    assert repr(sampler) == "Sampler(25% by session_id: 0 of 0 sampled, 0 judged)"
    every = Sampler({"evaluators": [{"type": "contains", "value": "Paris"}]})
    with every:
        every.offer({"response": "Paris"})
        every.offer("no JSON")
    assert f"{every}" == "Sampler(100%: 2 of 2 sampled, 1 judged, 1 unreadable)"
    assert f"{Sampler({'evaluators': [{'type': 'contains', 'value': 'x'}]}, sample=0.005)}".startswith("Sampler(0.5%: ")


@pytest.mark.parametrize("share", [0, 2.0, -0.5, float("nan")])
def test_a_share_outside_of_0_to_1_is_refused_as_it_was_written(share: float) -> None:
    with pytest.raises(ConfigError) as caught:
        Sampler(CONFIG, sample=share)
    assert str(caught.value) == f"sample must be a share above 0 and at most 1, not {share!r}"
