"""Tools of the durability tests: a billing server, a project that uses it, and runs to kill."""

import json
import os
import select
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).parent
WORKERS = 8
TOO_LONG_S = 100


@dataclass
class Witness:
    """A running billing server, which counts the calls of each case."""

    process: subprocess.Popen[bytes]
    file: Path
    url: str = ""
    seen: int = 0
    _rest: bytes = b""

    def bills(self) -> Counter[str]:
        """Return the number of bills of each case."""
        return Counter(self.file.read_text().splitlines())

    def wait_for(self, count: int, process: subprocess.Popen[bytes]) -> bool:
        """Wait until `count` calls were billed in total; return False if `process` ended before."""
        assert self.process.stdout is not None
        pipe, ended = self.process.stdout.fileno(), os.pidfd_open(process.pid)
        try:
            while self.seen < count:
                ready, _, _ = select.select([pipe, ended], [], [], TOO_LONG_S)
                assert ready, "neither was the server called nor did the run end"
                if pipe in ready:
                    self.seen += os.read(pipe, 65536).count(b"\n")
                else:
                    return False
        finally:
            os.close(ended)
        return True

    def release(self) -> None:
        """Let the held calls continue."""
        assert self.process.stdin is not None
        self.process.stdin.write(b"\n")
        self.process.stdin.flush()


@contextmanager
def billing(
    folder: Path,
    *,
    hold_at: int = 0,
    latency_s: float = 0.0,
    within: Callable[..., list[str]] = lambda *words: [*words],
) -> Iterator[Witness]:
    """Serve until the end of the block; `within` returns the words that start a program in another network."""
    file = folder / "bills"
    file.touch()
    command = within(sys.executable, str(HERE / "billing_server.py"), str(file), str(hold_at), str(latency_s))
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0) as process:
        try:
            assert process.stdout is not None
            port = int(process.stdout.readline())
            yield Witness(process, file, f"http://127.0.0.1:{port}/v1")
        finally:
            process.kill()


@dataclass
class Project:
    """A folder with one suite of `count` cases against a witness."""

    folder: Path
    witness: Witness
    count: int
    started: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def __post_init__(self) -> None:
        (self.folder / ".git").mkdir()
        lines = (
            json.dumps(
                {
                    "id": f"case-{number}",
                    "expected_outcome": "x",
                    "input_messages": [{"role": "user", "content": f"case-{number}"}],
                }
            )
            for number in range(self.count)
        )
        (self.folder / "cases.jsonl").write_text("\n".join(lines) + "\n")
        (self.folder / "cases.yaml").write_text(
            "execution: {evaluators: [{name: yes, type: starts_with, value: 'yes'}]}\n"
        )
        (self.folder / "targets.yaml").write_text(
            f"targets: [{{name: t, provider: openai, base_url: '{self.witness.url}', model: m, "
            f"api_key: '${{{{ KEY }}}}', workers: {WORKERS}}}]"
        )

    def start(
        self, *arguments: str, file_limit: int | None = None, stdout: int = subprocess.DEVNULL
    ) -> subprocess.Popen[bytes]:
        """Start `agentv` here; `file_limit` is the maximum size of a file in bytes, as on a full disk."""
        code = "import resource, sys; from agentv.cli.main import main; "
        if file_limit is not None:
            code += f"resource.setrlimit(resource.RLIMIT_FSIZE, ({file_limit}, {file_limit})); "
        command = [sys.executable, "-c", f"{code}main(sys.argv[1:])", *arguments]
        return self._popen(command, stdout)

    def start_naive(self, *, file_limit: int = 0) -> subprocess.Popen[bytes]:
        """Start the naive runner with the same cases and server."""
        rows = str(self.folder / "naive.jsonl")
        command = [sys.executable, str(HERE / "naive.py"), self.witness.url, rows, str(self.count), str(file_limit)]
        return self._popen(command, subprocess.DEVNULL)

    def _popen(self, command: Sequence[str], stdout: int) -> subprocess.Popen[bytes]:
        env = {**os.environ, "KEY": "a-key"}
        process = subprocess.Popen(command, cwd=self.folder, env=env, stdout=stdout, stderr=subprocess.PIPE)
        self.started.append(process)
        return process

    def end(self, process: subprocess.Popen[bytes]) -> tuple[int, str]:
        """Wait for a process; return its exit code and its standard error."""
        _, said = process.communicate(timeout=TOO_LONG_S)
        return process.returncode, said.decode()

    @property
    def run(self) -> Path:
        """The folder of the one run."""
        (run,) = (self.folder / ".agentv" / "runs").iterdir()
        return run

    def rows(self) -> Counter[str]:
        """Return the number of rows of each case in the run's file."""
        lines = (self.run / "results.jsonl").read_text().splitlines()
        return Counter(json.loads(line)["slot"]["eval_id"] for line in lines)

    def naive_rows(self) -> Counter[str]:
        """Return the number of rows of each case in the naive file; unreadable lines do not count."""
        found: Counter[str] = Counter()
        path = self.folder / "naive.jsonl"
        for line in path.read_text().splitlines() if path.exists() else []:
            try:
                found[json.loads(line)["id"]] += 1
            except ValueError:
                continue
        return found

    def every_case_once(self) -> Counter[str]:
        """Return the rows that a complete run must have."""
        return Counter(f"case-{number}" for number in range(self.count))


@contextmanager
def project_against(folder: Path, count: int, *, hold_at: int = 0) -> Iterator[Project]:
    """Yield a project with its witness; processes that still run at the end of the block are killed."""
    with billing(folder, hold_at=hold_at) as witness:
        project = Project(folder, witness, count)
        try:
            yield project
        finally:
            for process in project.started:
                process.kill()
                process.communicate()
