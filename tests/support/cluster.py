"""Nodes of a run as objects of this process, which a test can lose, hold and add; and runs of an eval file on them."""

import asyncio
import os
import pickle
import random
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from agentv.engine.cluster.driver import Node, NodeLostError, Timing
from agentv.engine.cluster.lines import decode_grant, encode_lines
from agentv.engine.cluster.node import NodeWork
from agentv.engine.cluster.node_segments import SpoolRules
from agentv.engine.cluster.opening import OpenMachines
from agentv.engine.cluster.tasks import RunSpec, decode_tasks
from agentv.engine.planning.inputs import load_inputs
from agentv.engine.planning.plan import RunPlan
from agentv.engine.planning.planning import make_plan
from agentv.engine.running.clock import make_clock
from agentv.engine.running.recorder import StopSignal
from agentv.engine.running.run_stores import make_store
from agentv.engine.runs.run import run_plan
from agentv.loading.files.places import find_eval_files, find_home
from agentv.storage.run.stored import open_run
from agentv.types.events import Observer
from agentv.types.protocols import QuotaService
from agentv.types.records.result import CaseResult
from agentv.types.results import RunReport
from agentv.types.run_options import RunOptions, make_options

QUICK = Timing(wait_s=0.05, lease_s=0.4, search_s=0.02, grace_s=0.3, stop_s=1.0, store_s=2.0, list_s=0.05)


About = tuple[Mapping[str, float], Mapping[str, str]]
"""The resources and labels of a node."""


class ProcessNode:
    """A node in this process. After `lose` nothing reaches it, as with a machine without a network."""

    rules = SpoolRules()

    def __init__(self, name: str, spec: bytes, env: Mapping[str, str], about: About = ({}, {})) -> None:
        self.name = name
        self.resources, self.labels = about
        self.given = 0
        self._env = env
        self._lost = asyncio.Event()
        self.has_stopped_itself = asyncio.Event()
        self.work = NodeWork(
            pickle.loads(spec), machine=name, on_lost=self._end, lease_s=QUICK.lease_s, spool_rules=self.rules
        )

    def _end(self) -> None:
        """End as the process of a node does: no call reaches it any more."""
        self.has_stopped_itself.set()
        self.lose()

    def lose(self) -> None:
        """Let every call from now on, and those that wait, find nobody."""
        self._lost.set()

    @property
    def is_lost(self) -> bool:
        return self._lost.is_set()

    async def begin(self) -> str | None:
        return await self.work.begin(self._env)

    async def give(self, tasks: bytes) -> None:
        self._check()
        rows = decode_tasks(tasks)
        self.given += len(rows)
        self.work.give(rows)

    async def grant(self, number: int, grant: bytes) -> None:
        self._check()
        self.work.grant(number, decode_grant(grant))

    async def take(self, wait_s: float) -> bytes:
        self._check()
        taking = asyncio.create_task(self._take(wait_s))
        losing = asyncio.create_task(self._lost.wait())
        try:
            # Without cancelling the call: a call of a node that is given up goes on there.
            await asyncio.wait({taking, losing}, return_when=asyncio.FIRST_COMPLETED)
            self._check()
            return await taking
        finally:
            losing.cancel()

    async def _take(self, wait_s: float) -> bytes:
        return encode_lines(await self.work.take(wait_s))

    async def flush(self) -> None:
        self._check()
        self.work.flush()

    async def listed(self, name: str, first: int | None) -> None:
        self._check()
        self.work.listed(name, first)

    async def stop(self) -> bytes:
        self._check()
        return encode_lines(await self.work.stop())

    def kill(self) -> None:
        self._lost.set()

    def _check(self) -> None:
        if self._lost.is_set():
            raise NodeLostError("its machine is gone")


class ProcessMachines:
    """Machines in this process; `add` lets one more join."""

    timing = QUICK

    def __init__(
        self,
        count: int,
        *,
        env: Mapping[str, str] | None = None,
        about: Sequence[About] = (),
        node: type[ProcessNode] = ProcessNode,
    ) -> None:
        self._node = node
        self._count = count
        self._about = about
        self._env = os.environ if env is None else env
        self._spec = b""
        self.sent = b""
        self.nodes: list[ProcessNode] = []

    def __call__(self, spec: RunSpec, _options: RunOptions) -> "ProcessMachines":
        self._spec = self.sent = pickle.dumps(spec)
        return self

    def add(self) -> None:
        """Let one more machine join."""
        self._count += 1

    async def find(self) -> list[Node]:
        about = [*self._about, *[({}, {})] * self._count]
        numbers = range(len(self.nodes), self._count)
        new = [self._node(f"node-{number}", self._spec, self._env, about[number]) for number in numbers]
        self.nodes += new
        return [*new]

    async def aclose(self) -> None:
        return


def plan_of(folder: Path, **options: Any) -> RunPlan:
    """Return the plan of the eval files in a folder."""
    chosen = make_options(options)
    files = find_eval_files(["."], cwd=folder)
    inputs = load_inputs(files, chosen, cwd=folder, env=os.environ)
    plan = make_plan(inputs.suites, chosen, specs=inputs.specs, home=str(find_home(folder)))
    return replace(plan, paths=(".",), folder=str(folder))


async def run_on(
    folder: Path,
    machines: OpenMachines | None,
    *,
    stop: StopSignal | None = None,
    observers: tuple[Observer, ...] = (),
    quota: QuotaService | None = None,
    **options: Any,
) -> RunReport:
    """Run the eval files of a folder on machines; None: here."""
    plan, clock = plan_of(folder, **options), make_clock()
    return await run_plan(
        plan,
        store=make_store(plan, clock=clock),
        observers=observers,
        clock=clock,
        rng=random.Random(0),
        stop=stop,
        quota=quota,
        open_machines=machines,
    )


def stored_rows(report: RunReport) -> list[CaseResult]:
    """Return the rows of a run's folder."""
    assert report.folder is not None
    return list(open_run(Path(report.folder)).all_results())


class Calls:
    """Counts the events of one class and calls a function at each."""

    def __init__(self, kind: type, then: Callable[[Any], object]) -> None:
        self.event_types = (kind,)
        self._then = then

    def notify(self, event: Any) -> None:
        self._then(event)

    def close(self) -> None:
        return
