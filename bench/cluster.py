"""A run on the nodes of a Ray cluster: what its driver costs, how much nodes help, and what kills lose.

    ./run --group=ray python -m bench.cluster driver                # CPU time of the driver for each of 100,000 rows
    ./run --group=ray python -m bench.cluster nodes in_flight first # two nodes, each pinned to one core
    ./run --group=ray python -m bench.cluster memory                # the driver's memory over a million rows
    ./run --group=ray python -m bench.cluster segments              # 100,000 rows that the nodes store as segments
    ./run --group=ray python -m bench.cluster million               # the same over a million rows
    ./run --group=ray python -m bench.cluster kills                 # 50 kills of each part, at 5,000 cases
    ./run --group=ray python -m bench.cluster kills --parts quota driver --times 10

The cluster runs on this machine, in a network of its own. Each experiment prints one line for each figure.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from tests.support import ray_kills
from tests.support.ray_cluster import RayCluster, why_not

ROWS, FEW_ROWS, MILLION = 100_000, 1_000, 1_000_000
JUDGED_ROWS, SLEEPING_ROWS, LONG_ROWS = 200, 20_000, 20_000
JUDGE_S, CALL_S, IN_FLIGHT = 0.1, 0.2, 200
KILLS, KILL_CASES, KILL_WORKERS = 50, 5_000, 20

TARGETS = """
import asyncio, time
async def echo(request):
    return request.question
async def sleep(request):
    await asyncio.sleep(CALL_S)
    return request.question
async def long(request):
    return request.question + " word" * 4_000
async def note(request):
    with open("CALLED", "a") as file:
        file.write(f"{time.time()}\\n")
    return request.question
"""
JUDGE = """
import json, sys, time
sys.stdin.read()
while time.process_time() < JUDGE_S:
    pass
print(json.dumps({"score": 1.0, "hits": ["it ran"], "misses": []}))
"""
SAYS = {"type": "contains", "value": "Say"}


class Used(NamedTuple):
    """What a process used: seconds of time and of CPU, and the most memory."""

    wall_s: float
    cpu_s: float
    peak_mb: float


@contextmanager
def project(*, cases: int, function: str = "echo", workers: int = 50, evaluator: object = SAYS) -> Iterator[Path]:
    """Yield a folder with a dataset, its evaluator, and a Python function as the target."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        (folder / ".git").mkdir()
        target = {"name": "t", "provider": "python", "callable": f"functions.py:{function}", "workers": workers}
        (folder / "targets.yaml").write_text(json.dumps({"targets": [target]}), encoding="utf-8")
        (folder / "functions.py").write_text(
            TARGETS.replace("CALL_S", str(CALL_S)).replace("CALLED", f"{folder}/called.txt"), encoding="utf-8"
        )
        (folder / "judge.py").write_text(JUDGE.replace("JUDGE_S", str(JUDGE_S)), encoding="utf-8")
        side = {"execution": {"target": "t", "evaluators": [{"name": "judged", **dict(evaluator)}]}}  # type: ignore[call-overload]
        (folder / "cases.yaml").write_text(json.dumps(side), encoding="utf-8")
        with (folder / "cases.jsonl").open("w", encoding="utf-8") as file:
            for number in range(cases):
                messages = [{"role": "user", "content": f"Say {number}."}]
                case = {"id": f"c{number}", "expected_outcome": "x", "input_messages": messages}
                file.write(json.dumps(case) + "\n")
        yield folder


def run(cluster: RayCluster, folder: Path, *options: str) -> Used:
    """Run the cases to their end and return what the process used, without the processes of the cluster."""
    command = cluster.agentv("run", "cases.jsonl", "--display", "none", *options)
    begin = time.monotonic()
    with subprocess.Popen(  # noqa: S603 - ours
        command, cwd=folder, env=cluster.env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        said = process.stdout.read() if process.stdout else ""
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(said)
    return Used(time.monotonic() - begin, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def on_ray(cluster: RayCluster, folder: Path) -> tuple[str, ...]:
    """Return the options of a run on a cluster whose nodes read the project where it is."""
    return ("--backend", "ray", "--ray-address", cluster.address, "--shared-path", str(folder))


def times_of_rows(folder: Path) -> list[float]:
    """Return when each row ended, in order."""
    (results,) = folder.glob(".agentv/runs/*/results.jsonl")
    with results.open(encoding="utf-8") as lines:
        return sorted(datetime.fromisoformat(json.loads(line)["timestamp"]).timestamp() for line in lines)


@contextmanager
def pinned_nodes(count: int) -> Iterator[RayCluster]:
    """Yield a cluster whose nodes have one core each; the driver and Ray's control processes have all."""
    with RayCluster(count) as cluster:
        for core, raylet in enumerate(cluster.raylets):
            for process in (raylet, *_descendants(raylet)):
                for thread in Path(f"/proc/{process}/task").iterdir():
                    os.sched_setaffinity(int(thread.name), {core % (os.cpu_count() or 1)})
        yield cluster


def _descendants(process: int) -> Iterator[int]:
    for thread in Path(f"/proc/{process}/task").iterdir():
        for child in map(int, (thread / "children").read_text(encoding="utf-8").split()):
            yield child
            yield from _descendants(child)


def driver() -> Iterator[str]:
    """Yield the CPU time of the driver for each row, and that of the whole run on this machine, less start-up."""
    with pinned_nodes(2) as cluster:
        for name in ("driver", "one machine"):
            used = []
            for rows in (FEW_ROWS, ROWS):
                with project(cases=rows) as folder:
                    used.append(run(cluster, folder, *(on_ray(cluster, folder) if name == "driver" else ())))
            few, many = used
            each = (many.cpu_s - few.cpu_s) / (ROWS - FEW_ROWS)
            start = f"with start-up {few.cpu_s:.1f} s for {FEW_ROWS:,} rows"
            yield f"{name}: {1000 * each:.3f} ms CPU a row of {ROWS:,}; {start}"


def nodes() -> Iterator[str]:
    """Yield how many rows with a code judge two nodes run in the time of one."""
    rates = []
    for count in (1, 2):
        evaluator = {"type": "code_judge", "script": [sys.executable, "judge.py"]}
        with pinned_nodes(count) as cluster, project(cases=JUDGED_ROWS, workers=2, evaluator=evaluator) as folder:
            run(cluster, folder, *on_ray(cluster, folder))
            rates.append(_rate(times_of_rows(folder)))
    one, two = rates
    rows = f"{one:.2f} rows a second on one node, {two:.2f} on two"
    yield f"code judges of {1000 * JUDGE_S:.0f} ms CPU: {rows}, {two / one:.2f} times"


def _rate(times: Sequence[float]) -> float:
    """Return rows per second between the first and the last one, without the time at which the workers start."""
    middle = times[len(times) // 20 : -len(times) // 20]
    return (len(middle) - 1) / (middle[-1] - middle[0])


def in_flight() -> Iterator[str]:
    """Yield the rows per second with two nodes of 200 sleeping calls each, as a share of what is possible."""
    ideal = 2 * IN_FLIGHT / CALL_S
    with pinned_nodes(2) as cluster, project(cases=SLEEPING_ROWS, function="sleep", workers=IN_FLIGHT) as folder:
        run(cluster, folder, *on_ray(cluster, folder))
        rate = _rate(times_of_rows(folder))
    share = f"{rate:,.0f} rows a second, {rate / ideal:.1%} of ideal"
    yield f"calls of {1000 * CALL_S:.0f} ms, 2 times {IN_FLIGHT} in flight: {share}"


def first() -> Iterator[str]:
    """Yield the time from the start of the command to the first call, on a cluster that stands."""
    with pinned_nodes(2) as cluster:
        for name in ("a shared folder", "a shared folder, again", "a copy of the project", "a copy, again"):
            with project(cases=4, function="note") as folder:
                options = on_ray(cluster, folder)
                begin = time.time()
                run(cluster, folder, *(options if "shared" in name else options[:-2]))
                called = min(map(float, Path(folder, "called.txt").read_text(encoding="utf-8").split()))
            yield f"first request, {name}: {called - begin:.1f} s after the start of the command"


def memory() -> Iterator[str]:
    """Yield the most memory of the driver at 100,000 and at a million rows."""
    with pinned_nodes(2) as cluster:
        for rows in (ROWS, MILLION):
            with project(cases=rows) as folder:
                used = run(cluster, folder, *on_ray(cluster, folder))
                size = sum(path.stat().st_size for path in folder.glob(".agentv/runs/*/*")) / 1e9
            yield f"{rows:,} rows: driver at most {used.peak_mb:.0f} MB, {used.wall_s:.0f} s, run folder {size:.2f} GB"


def segments() -> Iterator[str]:
    """Yield what 100,000 rows cost the driver whose nodes store them, beside the same rows in the run folder.

    The same for fewer rows whose answers have 20 kB.
    """
    yield from _with_segments(ROWS)
    yield from _with_segments(LONG_ROWS, function="long")


def million() -> Iterator[str]:
    """Yield what a million rows cost the driver whose nodes store them, beside the same rows in the run folder."""
    yield from _with_segments(MILLION)


def _with_segments(rows: int, *, function: str = "echo") -> Iterator[str]:
    with pinned_nodes(2) as cluster:
        for name in ("the nodes store segments", "the driver stores rows"):
            used, listed = [], ""
            for count in (FEW_ROWS, rows):
                with project(cases=count, function=function) as folder:
                    options = ("--segments", f"{folder}/place") if "segments" in name else ()
                    used.append(run(cluster, folder, *on_ray(cluster, folder), *options))
                    listed = _listed(folder)
            few, many = used
            each = (many.cpu_s - few.cpu_s) / (rows - FEW_ROWS)
            yield (
                f"{function}, {name}, {rows:,} rows: {1000 * each:.3f} ms CPU of the driver a row, at most "
                f"{many.peak_mb:.0f} MB ({few.peak_mb:.0f} MB at {FEW_ROWS:,} rows), {many.wall_s:.0f} s; {listed}"
            )


def _listed(folder: Path) -> str:
    """Return what the list of segments of the only run has, and the size of its folder."""
    (run_folder,) = folder.glob(".agentv/runs/*")
    here = sum(path.stat().st_size for path in run_folder.iterdir())
    path = run_folder / "segments.jsonl"
    if not path.exists():
        return f"run folder {here / 1e6:,.1f} MB"
    lines = path.read_text(encoding="utf-8").splitlines()[1:]
    moved = sum(json.loads(line)["bytes"] for line in lines)
    return (
        f"{len(lines)} segments of {moved / 1e6:,.1f} MB in a list of {path.stat().st_size:,} bytes, "
        f"run folder {here / 1e6:,.2f} MB"
    )


def kills(parts: Sequence[ray_kills.Part] = ray_kills.PARTS, times: int = KILLS) -> Iterator[str]:
    """Yield what kills of each part lost, doubled and paid twice, on a cluster that stays."""
    with RayCluster(3) as cluster:
        for part in parts:
            seeds = random.Random(part)  # noqa: S311 - not a secret
            counts: Counter[str] = Counter()
            most_paid_twice = 0
            for number in range(times):
                after = seeds.randrange(50, KILL_CASES - 500)
                with TemporaryDirectory() as folder:
                    ended = ray_kills.run_and_kill(
                        cluster,
                        Path(folder),
                        part,
                        cases=KILL_CASES,
                        workers=KILL_WORKERS,
                        after_calls=after,
                        number=number % 3,
                    )
                paid_twice = ended.bills.total() - len(ended.bills)
                counts["ended"] += ended.code == 0
                counts["resumed"] += ended.is_resumed
                counts["lost"] += KILL_CASES - len(ended.rows)
                counts["doubled"] += ended.rows.total() - len(ended.rows)
                counts["paid twice"] += paid_twice
                most_paid_twice = max(most_paid_twice, paid_twice)
                lost = [line for line in ended.said.splitlines() if " was lost (" in line]
                print(f"{part} {number + 1}: {dict(counts)}", *lost, sep="\n  ", file=sys.stderr, flush=True)
            yield (
                f"{times} kills of the {part} at {KILL_CASES:,} cases, {3 * KILL_WORKERS} in flight: "
                f"{counts['ended']} runs ended with PASS ({counts['resumed']} by a resume), rows lost "
                f"{counts['lost']}, doubled {counts['doubled']}, calls paid twice {counts['paid twice']}, "
                f"at most {most_paid_twice} in one run"
            )


EXPERIMENTS: Mapping[str, Callable[[], Iterator[str]]] = {
    each.__name__: each for each in (driver, nodes, in_flight, first, memory, segments, million)
}


def main() -> None:
    """Run the named experiments."""
    parser = argparse.ArgumentParser(prog="python -m bench.cluster", description="A run on a Ray cluster.")
    names = (*EXPERIMENTS, kills.__name__)
    parser.add_argument("names", nargs="+", choices=names, metavar="NAME", help=", ".join(names))
    parser.add_argument("--parts", nargs="+", choices=ray_kills.PARTS, default=ray_kills.PARTS, help="what is killed")
    parser.add_argument("--times", type=int, default=KILLS, help="kills of each part")
    options = parser.parse_args()
    reason = why_not()
    if reason is not None:
        sys.exit(reason)
    for name in options.names:
        for line in kills(options.parts, options.times) if name == kills.__name__ else EXPERIMENTS[name]():
            print(f"{name}: {line}", flush=True)


if __name__ == "__main__":
    main()
