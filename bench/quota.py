"""Several runs at once that share one rate limit: the requests that reach the server in every 60 seconds.

    ./run python -m bench.quota                       # 150 seconds, three shards and two other runs
    ./run python -m bench.quota --seconds 75 --rpm 600 --kill
    ./run --group=ray python -m bench.quota --ray     # a run over three nodes of a Ray cluster, and two shards

The runs lease from one PostgreSQL database, and the server notes when each request arrives. No 60 seconds may have more
requests than the limit; from the first request until the last run begins to end, they should use at least 90 % of it.
With `--kill` a run is killed and started again every 20 seconds, and loses what it had leased: then only the first rule
holds.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from tests.support.fake_server import serving_fake
from tests.support.postgres_server import upgraded_database
from tests.support.quotas import in_window, most_in_a_window
from tests.support.ray_cluster import RayCluster, own_network

from agentv.fake.answers import answer
from agentv.fake.api import Question, Reply

SHARDS, OTHERS = 3, 2
NODES = 3
LEAST_SHARE = 0.9
KILL_EVERY_S = 20.0
WINDOW_S = 60.0
INSIDE = "AGENTV_BENCH_INSIDE"


class Shared(NamedTuple):
    """The arrival of every request, in seconds since the first, and how many runs were killed."""

    times: Sequence[float]
    killed: int


def shards(count: int) -> list[tuple[str, ...]]:
    """Return the options of each shard."""
    return [("--shard", f"{number}/{count}") for number in range(1, count + 1)]


def share(options: Sequence[tuple[str, ...]], *, seconds: float, per_minute: int, kills: bool) -> Shared:
    """Run for so many seconds, once with each of the options."""
    times: list[float] = []

    def answer_now(question: Question) -> Reply:
        times.append(time.monotonic())
        return answer(question)

    with TemporaryDirectory() as folder, serving_fake(answer=answer_now, latency_s=0.2) as server:
        place, url = Path(folder), upgraded_database()
        write_project(place, f"{server.url}/v1", per_minute, cases=round(per_minute * seconds / 60) + 5 * per_minute)
        runs = [started(place, url, each) for each in options]
        killed, ends_at = 0, time.monotonic() + seconds
        while (left_s := ends_at - time.monotonic()) > 0:
            time.sleep(min(left_s, KILL_EVERY_S))
            if kills and left_s > KILL_EVERY_S:
                number = killed % len(runs)
                runs[number].kill()
                runs[number].wait()
                runs[number] = started(place, url, options[number])
                killed += 1
        for process in runs:
            process.send_signal(signal.SIGTERM)
        for process in runs:
            process.wait(timeout=60)
    begin = times[0]
    return Shared([each - begin for each in times], killed)


def write_project(folder: Path, url: str, per_minute: int, *, cases: int) -> None:
    """Write a suite with so many cases, and a target with the limit."""
    (folder / ".git").mkdir()
    model = {"name": "model", "provider": "openai", "model": "fake", "base_url": url, "api_key": "sk-none"}
    target = {**model, "workers": 16, "requests_per_minute": per_minute}
    (folder / "targets.yaml").write_text(json.dumps({"targets": [target]}), encoding="utf-8")
    lines = (
        {"id": f"c{number}", "expected_outcome": "x", "input_messages": [{"role": "user", "content": "Say it."}]}
        for number in range(cases)
    )
    (folder / "cases.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    evaluators = [{"name": "said", "type": "contains", "value": "it"}]
    side = {"execution": {"target": "model", "evaluators": evaluators}}
    (folder / "cases.yaml").write_text(json.dumps(side), encoding="utf-8")


def started(folder: Path, url: str, options: Sequence[str]) -> "subprocess.Popen[bytes]":
    """Start a run."""
    command = (sys.executable, "-m", "agentv", "run", "cases.jsonl", "--quota", url, "--display", "none", *options)
    return subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # noqa: S603 - ours


def main() -> None:
    """Print the figures; exit with 1 if a rule is broken."""
    parser = argparse.ArgumentParser(prog="python -m bench.quota", description="Several runs on one rate limit.")
    parser.add_argument("--seconds", type=float, default=150.0)
    parser.add_argument("--rpm", type=int, default=300)
    parser.add_argument("--kill", action="store_true")
    parser.add_argument("--ray", action="store_true")
    options = parser.parse_args()
    if options.ray and INSIDE not in os.environ:
        # Cluster, server and runs need one network, which has nothing but loopback.
        command = [*own_network(), sys.executable, "-m", "bench.quota", *sys.argv[1:]]
        os.execvpe(command[0], command, {**os.environ, INSIDE: "1"})  # noqa: S606 - ours
    with RayCluster(NODES, is_inside=True) if options.ray else nullcontext() as cluster:
        runs = [*shards(SHARDS), *[()] * OTHERS]
        if cluster is not None:
            os.environ |= cluster.env
            runs = [("--backend", "ray", "--ray-address", cluster.address), *shards(2)]
        found = share(runs, seconds=options.seconds, per_minute=options.rpm, kills=options.kill)
    most = most_in_a_window(found.times)
    # The runs start within a few seconds, and end with the block that the last one has.
    starts = range(int(options.seconds - WINDOW_S) - 5)
    least = min(in_window(found.times, start) for start in starts)
    print(f"{len(runs)} runs, {options.rpm} requests a minute, {options.seconds:g} s, {found.killed} killed")
    print(f"requests: {len(found.times)}; in any 60 s: at most {most}, at least {least} ({least / options.rpm:.1%})")
    is_used = least >= LEAST_SHARE * options.rpm or options.kill
    sys.exit(0 if most <= options.rpm and is_used else 1)


if __name__ == "__main__":
    main()
