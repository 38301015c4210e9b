"""Judging in processes that were forked: those of a `multiprocessing` pool and the workers of gunicorn."""

import http.client
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.ports import free_port, running
from tests.support.waiting import until

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")

POOL = """
import multiprocessing
import agentv

def knows_paris(context):
    return 1.0 if "Paris" in context.candidate else 0.0

CONFIG = agentv.EvaluationRunConfig(
    evaluators=[{"type": "regex", "pattern": "Paris"}, knows_paris],
    storage=[{"type": "json_file", "path": "judged.jsonl"}],
)

def judge(number):
    given = {"id": str(number), "prompt": "Capital?", "response": "Paris"}
    return agentv.run_evaluation_sync(given, CONFIG, store="runs").overall_score

if __name__ == "__main__":
    print(judge(0), flush=True)
    with multiprocessing.get_context("fork").Pool(2) as pool:
        print(sorted(pool.map_async(judge, range(1, 9)).get(30)), flush=True)
    print(judge(9), flush=True)
"""


def test_a_forked_pool_judges_after_its_parent_has_judged(tmp_path: Path) -> None:
    (tmp_path / "pool.py").write_text(POOL)
    command = (sys.executable, "-W", "ignore", "pool.py")
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.splitlines() == ["1.0", str([1.0] * 8), "1.0"], done.stderr[-2000:]
    judged = [json.loads(line)["inputSnapshot"]["id"] for line in (tmp_path / "judged.jsonl").read_text().splitlines()]
    assert sorted(judged) == [str(number) for number in range(10)]


SERVICE = """
import json
import os
import agentv

def knows_paris(context):
    return 1.0 if "Paris" in context.candidate else 0.0

CONFIG = agentv.EvaluationRunConfig(evaluators=[{"type": "regex", "pattern": "Paris"}, knows_paris])
sampler = agentv.Sampler(CONFIG)
sampler.start()
sampler.offer({"id": "of the parent", "prompt": "Capital?", "response": "Paris"})
agentv.run_evaluation_sync({"response": "Paris"}, CONFIG)

def app(environ, start_response):
    if environ["PATH_INFO"] == "/offer":
        sampler.offer({"prompt": "Capital?", "response": "Paris"})
    score = agentv.run_evaluation_sync({"response": "Paris"}, CONFIG).overall_score
    counts = {name: getattr(sampler.stats, name) for name in sampler.stats.__struct_fields__}
    start_response("200 OK", [("Content-Type", "application/json")])
    return [json.dumps({"pid": os.getpid(), "score": score, **counts}).encode()]
"""


def test_the_workers_of_gunicorn_judge_with_what_it_loaded_before_its_fork(tmp_path: Path) -> None:
    pytest.importorskip("gunicorn", reason="gunicorn is not installed: uv sync --group service")
    (tmp_path / "service.py").write_text(SERVICE)
    port = free_port()
    options = ("--preload", "--workers=2", "--timeout=20", f"--bind=127.0.0.1:{port}", f"--chdir={tmp_path}")
    seen: dict[int, dict[str, float]] = {}

    def ask(path: str) -> dict[str, float]:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        connection.request("GET", path)
        answer: dict[str, float] = json.loads(connection.getresponse().read())
        connection.close()
        seen[int(answer["pid"])] = answer
        return answer

    with running((sys.executable, "-W", "ignore", "-m", "gunicorn", *options, "service:app"), port) as server:
        assert all(ask("/offer")["score"] == 1.0 for _ in range(20))
        assert until(lambda: ask("/") and all(answer["pending"] == 0 for answer in seen.values())), seen
        server.terminate()
        assert server.wait(20) == 0
    assert sum(answer["judged"] for answer in seen.values()) == 20
    assert {answer["failed"] + answer["lost"] + answer["unreadable"] for answer in seen.values()} == {0}


TARGET = """
import multiprocessing
import time

def answer(request):
    context = multiprocessing.get_context("fork")
    began = context.Event()
    process = context.Process(target=lambda: (began.set(), time.sleep(600)))
    process.start()
    began.wait()
    process.terminate()
    process.join()
    return str(process.exitcode)
"""


def test_a_process_that_a_target_forks_can_be_terminated(tmp_path: Path) -> None:
    (tmp_path / "target.py").write_text(TARGET)
    (tmp_path / "a.eval.yaml").write_text(
        "targets: [{name: t, provider: python, callable: 'target.py:answer'}]\n"
        "cases: [{id: a, input: q, evaluators: [{name: e, type: equals, value: '-15'}]}]\n"
    )
    command = (sys.executable, "-W", "ignore", "-m", "agentv", "run", "a.eval.yaml")
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
