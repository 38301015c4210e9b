"""A long run against a model with eight faults at one percent each, beside the same run without faults.

    ./run python -m bench.soak                 # 100,000 cases, a few minutes
    ./run python -m bench.soak --cases 10000

Each faulty question fails at every attempt. The run must end with a result for every case and each fault as a failure
of its own kind, and its memory must not grow after the first 5,000 cases. Its wall time is compared with that of the
smooth run, plus what the retries cost: the time limits and replies that the server was made to take.
"""

import argparse
import json
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from bench.harness import ROOT
from bench.harnesses.agentv_files import write_job
from bench.harnesses.job import Job
from bench.model_server import FAULTS, serving

CASES = 100_000
AT_ONCE = 50
DELAY_S = 0.02
TIME_LIMIT_S = 1.0
RETRIES = 1
WARM = 5000
"""After this many results, memory should no longer grow."""
RETRIED = ("rate_limited", "server_error", "transport", "deadline")
MOST_GROWTH_MB, MOST_TIMES = 10.0, 1.3


class Soak(NamedTuple):
    """The wall time of a run, its resident memory in MB after `WARM` results and at most from then on, its results."""

    wall_s: float
    warm_mb: float
    peak_mb: float
    kinds: Counter[str]


def soak(cases: int, *, faulty: bool) -> Soak:
    """Run the cases in a process of its own, and watch its memory."""
    with TemporaryDirectory() as folder, serving(delay_s=DELAY_S, faulty=faulty) as server:
        dataset = write_job(Job(kind="ask", cases=cases, at_once=AT_ONCE, url=server.url), Path(folder) / "job")
        targets = dataset.with_name("targets.yaml")
        (target,) = json.loads(targets.read_text(encoding="utf-8"))["targets"]
        target |= {"timeout_seconds": TIME_LIMIT_S, "max_retries": RETRIES, "retry_initial_delay_ms": 10}
        targets.write_text(json.dumps({"targets": [target]}), encoding="utf-8")
        command = (sys.executable, "-m", "agentv", "run", dataset.name, "--display", "none")
        begin = time.perf_counter()
        environment = {"PYTHONPATH": str(ROOT), "OPENAI_API_KEY": "none", "HOME": folder, "PATH": ""}
        with subprocess.Popen(command, cwd=dataset.parent, env=environment, stderr=subprocess.DEVNULL) as process:  # noqa: S603 - ours
            memory = _watched(process, dataset.parent)
        wall_s = time.perf_counter() - begin
        warm = [mb for done, mb in memory if done >= min(WARM, cases // 2)]
        return Soak(wall_s, warm[0], max(warm), _kinds(dataset.parent))


def _watched(process: "subprocess.Popen[bytes]", folder: Path) -> list[tuple[int, float]]:
    """Return pairs of the number of results and the resident memory in MB, four a second, until the process ends."""
    memory, done, place = [], 0, 0
    while process.poll() is None:
        for results in folder.glob(".agentv/runs/*/results.jsonl"):
            with results.open("rb") as file:
                file.seek(place)
                new = file.read()
            done, place = done + new.count(b"\n"), place + len(new)
        try:
            status = Path(f"/proc/{process.pid}/status").read_text(encoding="ascii").splitlines()
        except OSError:
            break
        memory += [(done, int(line.split()[1]) * 1024 / 1e6) for line in status if line.startswith("VmRSS:")]
        time.sleep(0.25)
    return memory


def _kinds(folder: Path) -> Counter[str]:
    """Return the number of results by failure kind; `pass` and `fail` for results without a failure."""
    kinds: Counter[str] = Counter()
    for results in folder.glob(".agentv/runs/*/results.jsonl"):
        with results.open(encoding="utf-8") as lines:
            for result in map(json.loads, lines):
                kinds[result["error"]["kind"] if result.get("error") else result["status"]] += 1
    return kinds


def cost_of_retries_s(cases: int) -> float:
    """Return the least wall time that faults add: replies of the retries, and two time limits for each hang."""
    each = cases / 100
    replies = each * (len(RETRIED) - 1) * RETRIES * DELAY_S
    hangs = each * ((RETRIES + 1) * TIME_LIMIT_S - DELAY_S)
    return (replies + hangs) / AT_ONCE


def main() -> None:
    """Print both runs and what is not as it should be; exit with 1 in that case."""
    parser = argparse.ArgumentParser(prog="python -m bench.soak", description="A long run against a faulty model.")
    parser.add_argument("--cases", type=int, default=CASES)
    cases = parser.parse_args().cases
    smooth, rough = soak(cases, faulty=False), soak(cases, faulty=True)
    for name, run in (("without faults", smooth), ("eight faults", rough)):
        print(f"{name}: {run.wall_s:.1f} s; {run.warm_mb:.1f} MB, at most {run.peak_mb:.1f} MB; {dict(run.kinds)}")
    expected = Counter(dict.fromkeys(FAULTS, cases // 100) | {"pass": cases - cases // 100 * len(FAULTS)})
    times = rough.wall_s / (smooth.wall_s + cost_of_retries_s(cases))
    print(f"cost of retries {cost_of_retries_s(cases):.1f} s; {times:.2f} times the smooth run and this cost")
    wrong = [
        *(
            [f"results {dict(rough.kinds - expected)} in place of {dict(expected - rough.kinds)}"]
            * (rough.kinds != expected)
        ),
        *(
            [f"memory grew by {rough.peak_mb - rough.warm_mb:.1f} MB"]
            * (rough.peak_mb - rough.warm_mb > MOST_GROWTH_MB)
        ),
        *([f"{times:.2f} times the time"] * (times > MOST_TIMES)),
    ]
    print("\n".join(wrong) or "as it should be")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
