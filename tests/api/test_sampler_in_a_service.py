"""The sampler in a real FastAPI service: the lifespan of docs/how-to/sampling.md, served by uvicorn."""

import asyncio
import http.client
import json
import re
import threading
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi", reason="FastAPI is not installed: uv sync --group service")
uvicorn = pytest.importorskip("uvicorn", reason="uvicorn is not installed: uv sync --group service")

PAGE = Path(__file__).parent.parent.parent / "docs" / "how-to" / "sampling.md"


def service_of_the_page() -> str:
    (block,) = re.findall(r"^```python service\.py\n(.*?)^```$", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    return str(block)


class Serving:
    """A service in a thread of its own, on a free port."""

    def __init__(self, app: Any) -> None:
        self._server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="warning", lifespan="on"))
        self._thread = threading.Thread(target=asyncio.run, args=(self._server.serve(),))

    def __enter__(self) -> int:
        self._thread.start()
        while not self._server.started:
            assert self._thread.is_alive(), "the service did not start"
            self._thread.join(0.01)
        port: int = self._server.servers[0].sockets[0].getsockname()[1]
        return port

    def __exit__(self, *_error: object) -> None:
        self._server.should_exit = True
        self._thread.join()


def test_the_service_of_the_page_loses_no_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    service: dict[str, Any] = {}
    exec(compile(service_of_the_page(), "service.py", "exec"), service)
    with Serving(service["app"]) as port:
        connection = http.client.HTTPConnection("127.0.0.1", port)
        for number in range(200):
            connection.request("GET", f"/answer?question=q{number}&session=s{number % 50}")
            assert connection.getresponse().read()
        connection.close()
    stats = service["sampler"].stats
    assert stats.offered == 200
    assert 0 < stats.sampled == stats.judged
    assert stats.dropped == stats.lost == stats.pending == 0
    judged = [json.loads(line) for line in Path("judged.jsonl").read_text().splitlines()]
    assert len(judged) == stats.judged
