"""pytest-xdist: the controller owns the run, and its workers ask it for rows over a connection of this machine.

A message is one line of JSON. The first line of a connection is the token of the session.
"""

import secrets
import socket
from collections.abc import Sequence
from contextlib import suppress
from threading import Lock, Thread
from typing import TYPE_CHECKING

import msgspec
import pytest
from msgspec import Struct

from agentv.pytest_plugin.rows import EndedRun, GivenAnswer, Rows, RunOfSession, WantedCases, session_options
from agentv.storage.records.decode import RESULTS
from agentv.storage.records.encode import result_line
from agentv.storage.records.json_line import encode
from agentv.types.errors import AgentvError, ConfigError
from agentv.types.records.result import CaseResult

if TYPE_CHECKING:
    from agentv.pytest_plugin import AgentvSession


class Request(Struct):
    """What a worker asks for: the rows of a case, or of a given answer."""

    all_wanted: tuple[WantedCases, ...]
    wanted: WantedCases | None = None
    given: GivenAnswer | None = None


class Reply(Struct):
    """The rows as lines of results.jsonl, or the error; `is_config` says that a setting is wrong."""

    rows: tuple[str, ...] = ()
    error: str | None = None
    is_config: bool = False


class WorkerServer:
    """The part of the controller that answers workers; each has a connection and a thread."""

    def __init__(self, config: pytest.Config, session: "AgentvSession") -> None:
        self._config = config
        self._session = session
        self._make_once = Lock()
        self._token = secrets.token_hex(16)
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.address = f"{self._socket.getsockname()[1]} {self._token}"
        Thread(target=self._accept, name="agentv-workers", daemon=True).start()

    def close(self) -> None:
        """Accept no further workers."""
        self._socket.close()

    def _accept(self) -> None:
        with suppress(OSError):  # closed
            while True:
                connection, _ = self._socket.accept()
                Thread(target=self._serve, args=(connection,), name="agentv-worker", daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with suppress(OSError), connection, connection.makefile("rwb") as file:
            if not secrets.compare_digest(file.readline().strip(), self._token.encode()):
                return
            for line in file:
                file.write(msgspec.json.encode(self._reply(msgspec.json.decode(line, type=Request))) + b"\n")
                file.flush()

    def _reply(self, request: Request) -> Reply:
        try:
            rows = self._rows()
            if request.wanted is not None:
                results = rows.of_case(request.wanted, request.all_wanted)
            elif request.given is not None:
                results = (rows.of_answer(request.given, request.all_wanted),)
            else:
                results = ()
        except AgentvError as error:
            return Reply(error=str(error), is_config=isinstance(error, ConfigError))
        return Reply(tuple(encode(result_line(row)).decode() for row in results))

    def _rows(self) -> Rows:
        with self._make_once:
            if self._session.rows is None:
                self._session.rows = RunOfSession(session_options(self._config))
            return self._session.rows


class RowsOfController:
    """The rows of a session, asked for by a worker. `address` is what its controller told it."""

    def __init__(self, address: str) -> None:
        port, _, token = address.partition(" ")
        self._socket = socket.create_connection(("127.0.0.1", int(port)))
        self._file = self._socket.makefile("rwb")
        self._file.write(f"{token}\n".encode())

    def of_case(self, wanted: WantedCases, all_wanted: Sequence[WantedCases]) -> tuple[CaseResult, ...]:
        """Return the rows of the case in `wanted`. Raises AgentvError if it cannot be run."""
        return self._ask(Request(tuple(all_wanted), wanted=wanted))

    def of_answer(self, given: GivenAnswer, all_wanted: Sequence[WantedCases]) -> CaseResult:
        """Return the row of a given answer. Raises ConfigError for evaluators that cannot be used."""
        (row,) = self._ask(Request(tuple(all_wanted), given=given))
        return row

    def end(self, *, interrupted: bool, early: str | None) -> EndedRun | None:  # noqa: ARG002 - the controller decides
        """Close the connection: the run belongs to the controller."""
        self._file.close()
        self._socket.close()
        return None

    def _ask(self, request: Request) -> tuple[CaseResult, ...]:
        try:
            self._file.write(msgspec.json.encode(request) + b"\n")
            self._file.flush()
            reply = msgspec.json.decode(self._file.readline(), type=Reply)
        except (OSError, msgspec.DecodeError) as error:
            raise AgentvError(f"the controller of pytest-xdist does not answer: {error}") from error
        if reply.error is not None:
            raise (ConfigError if reply.is_config else AgentvError)(reply.error)
        return tuple(RESULTS.of_line(row.encode()) for row in reply.rows)
