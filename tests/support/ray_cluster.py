"""A Ray cluster on this machine, in a network of its own that has nothing but loopback.

Run as a program it is that cluster: it prints what it has as JSON lines, and obeys the words on its standard input:
`replace NUMBER`, `remove NUMBER`, and the end of the input, which ends it.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

import psutil

ROOT = Path(__file__).parents[2]
MODEL_KEY = "MODEL_KEY"
"""A variable of every node and of the driver."""
MODEL_KEY_VALUE = "a-key-of-this-test"


def why_not() -> str | None:
    """Return why no cluster can be started here, None if one can."""
    try:
        import ray  # noqa: F401, PLC0415 - of a group of its own
    except ImportError:
        return "needs Ray: ./run --group=ray pytest tests/ray"
    if shutil.which("unshare") is None or shutil.which("nsenter") is None:
        return "needs unshare and nsenter, for a network without anything but loopback"
    done = subprocess.run([*own_network(), "true"], capture_output=True, text=True, check=False)
    return None if done.returncode == 0 else f"no network of its own: {done.stderr.strip()}"


def own_network() -> list[str]:
    """Return the words that start a program in a network of its own."""
    unshare = ["unshare", "-n"] if os.geteuid() == 0 else ["unshare", "-rn"]
    return [*unshare, "sh", "-c", 'ip link set lo up && exec "$@"', "own-network"]


def object_store(raylet: int) -> bytes:
    """Return what the object store of a node has in its memory, which its raylet maps; only root may read it."""
    found = b""
    for line in Path(f"/proc/{raylet}/maps").read_text().splitlines():
        if "/plasma" in line:
            file = os.open(f"/proc/{raylet}/map_files/{line.split()[0]}", os.O_RDONLY)
            found += b"".join(_extents(file))
            os.close(file)
    return found


def _extents(file: int) -> Iterator[bytes]:
    """Yield the parts of a sparse file that were written."""
    end = 0
    with suppress(OSError):  # no part follows
        while True:
            start = os.lseek(file, end, os.SEEK_DATA)
            end = os.lseek(file, start, os.SEEK_HOLE)
            yield os.pread(file, end - start, start)


class RayCluster:
    """A cluster whose head runs no cases, with some nodes. Use it as a context manager.

    It makes a network for itself, unless this process is in one already.
    """

    def __init__(self, nodes: int, *, is_inside: bool = False) -> None:
        self._nodes = nodes
        self._is_inside = is_inside
        self.folder = Path(tempfile.mkdtemp(prefix="ray-", dir="/tmp"))  # short: sockets have paths of 107 bytes
        self.temporary = self.folder / "tmp"
        self.temporary.mkdir()
        own = {
            "RAY_TMPDIR": str(self.folder),
            "TMPDIR": str(self.temporary),
            "RAY_USAGE_STATS_ENABLED": "0",
            "XDG_CACHE_HOME": f"{self.folder}/caches",
        }
        self.env = {**os.environ, **own, MODEL_KEY: MODEL_KEY_VALUE}

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            [
                *([] if self._is_inside else own_network()),
                sys.executable,
                "-m",
                "tests.support.ray_cluster",
                str(self._nodes),
            ],
            cwd=ROOT,
            env=self.env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        started = self._read()
        self.address: str = started["address"]
        self.raylets: list[int] = started["raylets"]
        return self

    def __exit__(self, *_error: object) -> None:
        self._process.communicate()
        shutil.rmtree(self.folder, ignore_errors=True)

    def command(self, *words: str) -> list[str]:
        """Return the words that run a program in the network of the cluster."""
        if self._is_inside:
            return list(words)
        enter = ["nsenter", "-t", str(self._process.pid), "-n"]
        return [*(enter if os.geteuid() == 0 else [*enter, "-U", "--preserve-credentials"]), *words]

    def agentv(self, *words: str) -> list[str]:
        """Return the words of an agentv command in the network of the cluster."""
        return self.command(sys.executable, "-m", "agentv", *words)

    def run(self, folder: Path, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
        """Run agentv on the cluster to its end; its nodes read the project itself, no copy."""
        address = ("--backend", "ray", "--ray-address", self.address, "--shared-path", str(folder))
        return subprocess.run(
            self.agentv(*words, *(address if words[0] == "run" else ())),
            cwd=folder,
            env={**self.env, **more},
            capture_output=True,
            text=True,
            check=False,
        )

    def actors(self, name: str) -> list[int]:
        """Return the processes of the actors of a class, the oldest first."""
        found = [
            process
            for process in psutil.process_iter(["cmdline", "environ", "create_time"])
            if " ".join(process.info["cmdline"] or []).startswith(f"ray::{name}")
            and (process.info["environ"] or {}).get("RAY_TMPDIR") == str(self.folder)
        ]
        return [process.pid for process in sorted(found, key=lambda process: process.info["create_time"])]

    def replace(self, number: int) -> None:
        """Add a node in place of one that was killed."""
        self.raylets[number] = self._ask(f"replace {number}")["raylet"]

    def remove(self, number: int) -> None:
        """Kill all processes of a node."""
        self._ask(f"remove {number}")

    def _ask(self, words: str) -> Any:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{words}\n")
        self._process.stdin.flush()
        return self._read()

    def _read(self) -> Any:
        assert self._process.stdout is not None
        return json.loads(self._process.stdout.readline())


def main(nodes: int) -> None:
    """Be a cluster until standard input ends."""
    from ray.cluster_utils import Cluster  # noqa: PLC0415 - of a group of its own

    say = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what Ray prints is no answer
    cluster: Any = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    started = [cluster.add_node(num_cpus=1, wait=False) for _ in range(nodes)]
    cluster.wait_for_nodes()

    def raylet(node: Any) -> int:
        pid: int = node.all_processes["raylet"][0].process.pid
        return pid

    def answer(value: object) -> None:
        say.write(json.dumps(value) + "\n")
        say.flush()

    answer({"address": cluster.address, "raylets": [raylet(node) for node in started]})
    for line in sys.stdin:
        word, _, number = line.strip().partition(" ")
        if word == "replace":
            started[int(number)] = cluster.add_node(num_cpus=1)
            answer({"raylet": raylet(started[int(number)])})
        else:
            cluster.remove_node(started[int(number)], allow_graceful=False)
            answer({})
    cluster.shutdown()


if __name__ == "__main__":
    main(int(sys.argv[1]))
