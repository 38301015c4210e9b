"""`agentv review` in a process of its own, which may be killed while reviewers work."""

import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from msgspec import Struct, field
from tests.support.reviewed import ScriptedReviewer
from tests.support.viewer import Client

_LINK = re.compile(r"^  (\S+) +http://127\.0\.0\.1:(\d+)(\S+)$")


class ReviewProcess:
    """`agentv review` of the newest run in a folder. Use it with `with`; `kill` ends it as `kill -9` does."""

    def __init__(self, folder: Path, *options: str, environment: Mapping[str, str] | None = None) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "agentv", "review", "--no-open", *options],
            cwd=folder,
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.links: dict[str, tuple[int, str]] = {}
        self.head = ""
        """What was printed before the review began."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.head += line
            found = _LINK.match(line.rstrip("\n"))
            if found:
                self.links[found[1]] = int(found[2]), found[3]
            if line.startswith("Ctrl-C"):
                break

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._process.kill()
        self._process.communicate()

    def client(self, reviewer: str) -> Client:
        """Return the browser of a reviewer who has opened the link."""
        port, path = self.links[reviewer]
        client = Client(port)
        assert client.get(path).status == 303
        return client

    def kill(self) -> None:
        """Kill the process, whatever it does."""
        self._process.kill()
        self._process.wait()

    def interrupt(self) -> tuple[int, str]:
        """End the review as Ctrl-C does; return the exit code and what was printed."""
        self._process.send_signal(signal.SIGINT)
        text, _ = self._process.communicate(timeout=30)
        return self._process.returncode, text


def review_by_rule(
    folder: Path, options: Sequence[str], *, environment: Mapping[str, str], is_good: Callable[[str], bool]
) -> str:
    """Let each reviewer of `agentv review` label all answers by a rule, then press Ctrl-C; return what was printed."""
    with ReviewProcess(folder, *options, environment=environment) as process:
        for name, (_, path) in process.links.items():
            reviewer = ScriptedReviewer(process.client(name), path.split("/")[2])
            item: dict[str, Any] | None = reviewer.next()
            while item is not None and item["item"] is not None:
                passed = is_good(item["answer"])
                fields = (("verdict", "pass"),) if passed else (("verdict", "fail"), ("category", "does not know"))
                item = reviewer.send(item, *fields).json()["next"]
        code, text = process.interrupt()
        assert code == 0, text
        return process.head + text


class Acknowledged(Struct):
    """The ids of the labels that the server has acknowledged."""

    ids: list[str] = field(default_factory=list)


def review_until_killed(process: ReviewProcess, queue: str, reviewers: Sequence[str], *, labels: int) -> Acknowledged:
    """Let reviewers label at the same time, and kill the process as soon as `labels` are acknowledged."""
    found, enough = Acknowledged(), threading.Event()

    def work(name: str) -> None:
        try:
            reviewer = ScriptedReviewer(process.client(name), queue)
            item: dict[str, Any] | None = reviewer.next()
            while item is not None and item["item"] is not None:
                reply = reviewer.send(item, ("verdict", "pass" if "is good" in item["answer"] else "fail"))
                found.ids.append(reply.json()["saved"]["label_id"])
                if len(found.ids) >= labels:
                    enough.set()
                item = reply.json()["next"]
        except (OSError, ValueError):  # the server was killed
            pass
        finally:
            enough.set()

    threads = [threading.Thread(target=work, args=(name,)) for name in reviewers]
    for each in threads:
        each.start()
    enough.wait()
    process.kill()
    for each in threads:
        each.join()
    return found
