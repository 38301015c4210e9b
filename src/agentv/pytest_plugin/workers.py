"""pytest-xdist: the controller owns the run, and its workers request rows from it over a local connection.

A message is one line of JSON. The first line of a connection is the token of the session. Every session with
pytest-xdist imports this module; therefore it imports only the standard library and pytest.
"""

import secrets
import socket
from contextlib import suppress
from threading import Lock, Thread
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from agentv.pytest_plugin.rows import RowSource
    from agentv.pytest_plugin.state import SessionState


class WorkerServer:
    """The part of the controller that answers requests of workers; each worker has a connection and a thread."""

    def __init__(self, config: pytest.Config, session: "SessionState") -> None:
        self._config = config
        self._session = session
        self._row_source_lock = Lock()
        self._token = secrets.token_hex(16)
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.address = f"{self._socket.getsockname()[1]} {self._token}"
        Thread(target=self._accept, name="agentv-workers", daemon=True).start()

    def close(self) -> None:
        """Accept no further workers."""
        self._socket.close()

    def _accept(self) -> None:
        with suppress(OSError):  # raised by accept() after close()
            while True:
                connection, _ = self._socket.accept()
                Thread(target=self._serve, args=(connection,), name="agentv-worker", daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with suppress(OSError), connection, connection.makefile("rwb") as file:
            if not secrets.compare_digest(file.readline().strip(), self._token.encode()):
                return
            for line in file:
                from agentv.pytest_plugin.remote import handle_request  # noqa: PLC0415 - only if a worker requests rows

                file.write(handle_request(line, self._row_source))
                file.flush()

    def _row_source(self) -> "RowSource":
        from agentv.pytest_plugin.rows import SessionRun, session_options  # noqa: PLC0415 - only if a worker requests rows

        with self._row_source_lock:
            if self._session.row_source is None:
                self._session.row_source = SessionRun(session_options(self._config))
            return self._session.row_source
