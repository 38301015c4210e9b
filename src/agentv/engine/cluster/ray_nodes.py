"""Nodes of a Ray cluster (`--backend ray`)."""

import asyncio
import logging
import os
import pickle
import socket
from collections.abc import Mapping
from typing import Any

from ray.exceptions import RayError, RayTaskError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

import ray
from agentv.engine.cluster.driver import Node, NodeLostError, Timing
from agentv.engine.cluster.lines import decode_grant, encode_lines
from agentv.engine.cluster.node import NodeWork
from agentv.engine.cluster.ray_quota import NodeQuota
from agentv.engine.cluster.tasks import RunSpec, decode_tasks
from agentv.types.errors import AgentvError, ClusterError

MAX_PROCESSES = 3
"""The maximum number of processes that a run starts on one machine; each after the first replaces a lost one."""

CONNECT_S = 10.0
"""How long opening a TCP connection to the address of a cluster may take, in seconds."""

_ACTOR_OPTIONS: dict[str, Any] = {
    "num_cpus": 0,
    "max_restarts": 0,
    "max_task_retries": 0,
    "max_concurrency": 100,  # of calls of NodeActor's methods, not of rows; few calls overlap
}


class NodeActor:
    """The process of a run on one machine, as an actor of Ray."""

    def __init__(self, spec: bytes) -> None:
        run: RunSpec = pickle.loads(spec)  # noqa: S301 - written by the driver
        self._work = NodeWork(
            run,
            machine=socket.gethostname(),
            quota_of=lambda driver: NodeQuota(run.run_id, driver),
            # The driver is gone, or treats this node as lost: code that still runs must not call anything.
            on_lost=lambda: os._exit(1),
        )

    async def begin(self) -> str | AgentvError | None:
        """Read the run's files and check targets and judges; return why rows cannot run, or None.

        An AgentvError is returned, because Ray would wrap a raised one.
        """
        try:
            return await self._work.begin(os.environ)
        except AgentvError as error:
            return error

    async def give(self, tasks: bytes) -> None:
        """Begin rows."""
        self._work.give(decode_tasks(tasks))

    async def grant(self, number: int, grant: bytes) -> None:
        """Answer a request for a lease of the quota."""
        self._work.grant(number, decode_grant(grant))

    async def take(self, wait_s: float) -> bytes:
        """Return the next lines."""
        return encode_lines(await self._work.take(wait_s))

    async def flush(self) -> None:
        """Store the finished rows now, because the driver waits for them."""
        self._work.flush()

    async def listed(self, name: str, first: int | None) -> None:
        """Accept the number of a segment's first line in the run's file, None if the segment could not be listed."""
        self._work.listed(name, first)

    async def stop(self) -> bytes:
        """Close everything and return the remaining lines."""
        return encode_lines(await self._work.stop())


class RayNode:
    """A node of a Ray cluster, seen from the driver. `info` is its entry in `ray.nodes()`.

    All methods but `kill` raise NodeLostError if the node cannot be reached.
    """

    def __init__(self, info: Mapping[str, Any], spec: "ray.ObjectRef[bytes]") -> None:
        self.name: str = info["NodeManagerHostname"]
        self.resources: Mapping[str, float] = info["Resources"]
        self.is_killed = False
        self.labels: Mapping[str, str] = info.get("Labels") or {}
        here = NodeAffinitySchedulingStrategy(info["NodeID"], soft=False)
        options = _ACTOR_OPTIONS | {"scheduling_strategy": here}
        self._actor: Any = ray.remote(NodeActor).options(**options).remote(spec)

    async def begin(self) -> str | None:
        """Read the run's files on the node and check targets and judges; return why rows cannot run, or None.

        Raises AgentvError as `NodeWork.begin` does.
        """
        problem = await self._call(self._actor.begin.remote())
        if isinstance(problem, AgentvError):
            raise problem
        return None if problem is None else str(problem)

    async def give(self, tasks: bytes) -> None:
        """Begin rows."""
        await self._call(self._actor.give.remote(tasks))

    async def grant(self, number: int, grant: bytes) -> None:
        """Answer a request for a lease of the quota."""
        await self._call(self._actor.grant.remote(number, grant))

    async def take(self, wait_s: float) -> bytes:
        """Return the next lines."""
        lines: bytes = await self._call(self._actor.take.remote(wait_s))
        return lines

    async def flush(self) -> None:
        """Store the finished rows now, because the driver waits for them."""
        await self._call(self._actor.flush.remote())

    async def listed(self, name: str, first: int | None) -> None:
        """Pass on the number of a segment's first line in the run's file, None if the segment could not be listed."""
        await self._call(self._actor.listed.remote(name, first))

    async def stop(self) -> bytes:
        """Close everything and return the remaining lines."""
        lines: bytes = await self._call(self._actor.stop.remote())
        return lines

    def kill(self) -> None:
        """End the process."""
        self.is_killed = True
        ray.kill(self._actor, no_restart=True)

    async def _call(self, result_ref: Any) -> Any:
        try:
            return await result_ref
        except RayTaskError:  # a bug in agentv
            raise
        except RayError as error:
            lines = [line for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
            raise NodeLostError(" … ".join(dict.fromkeys((lines[0], lines[-1])))) from error


class RayMachines:
    """The machines of the Ray cluster that this process is connected to, else of the cluster at `address`.

    `address` None and `local` mean the same as for `connect`.
    """

    timing = Timing()

    def __init__(self, spec: RunSpec, address: str | None) -> None:
        self._spec = pickle.dumps(spec)
        self._spec_ref: ray.ObjectRef[bytes] | None = None
        self._address = address
        self._has_connected = False
        self._started: dict[str, list[RayNode]] = {}

    async def find(self) -> list[Node]:
        """Start a process on each machine without a running one, and return the new processes.

        No process is started on a machine without CPUs or with MAX_PROCESSES lost ones. Raises ClusterError.
        """
        if not ray.is_initialized():
            self._has_connected = await asyncio.to_thread(connect, self._address)
        try:
            infos = await asyncio.to_thread(ray.nodes)
        except _CONNECTION_ERRORS as error:
            raise _unusable(self._address, error) from error
        if self._spec_ref is None:
            self._spec_ref = ray.put(self._spec)  # once for all nodes: it may hold a project
        # A node without CPUs, such as a head node, is not meant to run anything.
        usable = [info for info in infos if info["Alive"] and info["Resources"].get("CPU")]
        new: list[Node] = []
        for info in usable:
            started = self._started.setdefault(info["NodeID"], [])
            if len(started) < MAX_PROCESSES and all(node.is_killed for node in started):
                started.append(RayNode(info, self._spec_ref))
                new.append(started[-1])
        return new

    async def aclose(self) -> None:
        """Leave the cluster if `find` connected to it; a cluster that was started for the run ends."""
        if self._has_connected:
            await asyncio.to_thread(leave)


_CONNECTION_ERRORS = (RayError, ConnectionError, RuntimeError, ValueError, OSError)


def _unusable(address: str | None, error: Exception) -> ClusterError:
    return ClusterError(f"the Ray cluster {_address_or_default(address)} cannot be used: {error}")


def _address_or_default(address: str | None) -> str:
    return address or os.environ.get("RAY_ADDRESS") or "local"


def connect(address: str | None) -> bool:
    """Connect this process to a cluster; return False if it is connected to one already. Raises ClusterError.

    `address` None means the environment variable RAY_ADDRESS. Without either, or for the address `local`, a cluster of
    this machine alone is started.
    """
    if ray.is_initialized():
        return False
    options: dict[str, Any] = {"include_dashboard": False} if _address_or_default(address) == "local" else {}
    try:
        _check_listens(_address_or_default(address))
        ray.init(address=_address_or_default(address), log_to_driver=False, logging_level=logging.ERROR, **options)
    except _CONNECTION_ERRORS as error:
        raise _unusable(address, error) from error
    return True


def _check_listens(address: str) -> None:
    """Raise OSError if `address` is `HOST:PORT` and nothing listens there: Ray itself would try for minutes."""
    host, _, port = address.rpartition(":")
    if host and port.isdigit():
        socket.create_connection((host.strip("[]"), int(port)), timeout=CONNECT_S).close()


def leave() -> None:
    """Leave the cluster; a cluster that was started for the run ends."""
    ray.shutdown()
