"""The messages between the workers of pytest-xdist and their controller, and the row source of a worker."""

import socket
from collections.abc import Callable, Sequence

import msgspec
from msgspec import Struct

from agentv.pytest_plugin.rows import EndedRun, GivenAnswer, RowSource, SessionEnding, WantedCases
from agentv.storage.records.decode import RESULTS
from agentv.storage.records.encode import encodable_result
from agentv.storage.records.json_line import encode
from agentv.types.errors import AgentvError, ConfigError
from agentv.types.records.answer import ResultKey
from agentv.types.records.result import CaseResult


class Settled(Struct):
    """The outcome of a test with rows that did not pass."""

    keys: tuple[ResultKey, ...]
    """The keys of these rows."""
    expected: str | None
    """The reason if the test expected that."""


class Request(Struct):
    """A request of a worker: for the rows of a case, for the row of an answer, or to report the outcome of a test."""

    all_wanted: tuple[WantedCases, ...] = ()
    """All cases that tests request."""
    wanted: WantedCases | None = None
    """The case whose rows are requested."""
    given: GivenAnswer | None = None
    """The answer whose row is requested."""
    settled: Settled | None = None
    """The outcome to report; the request is then for no rows."""


class Response(Struct):
    """The rows as lines of results.jsonl, or the error; `is_config` is True for a ConfigError."""

    rows: tuple[str, ...] = ()
    error: str | None = None
    is_config: bool = False


# Created on import, because msgspec crashes when two threads read a type for the first time at the same moment.
_decode_request = msgspec.json.Decoder(Request).decode
_decode_response = msgspec.json.Decoder(Response).decode


def handle_request(line: bytes, get_row_source: Callable[[], RowSource]) -> bytes:
    """Return the response to a request; both are lines of JSON."""
    request = _decode_request(line)
    try:
        source = get_row_source()
        results: tuple[CaseResult, ...] = ()
        if request.wanted is not None:
            results = source.of_case(request.wanted, request.all_wanted)
        elif request.given is not None:
            results = (source.of_answer(request.given, request.all_wanted),)
        elif request.settled is not None:
            source.settle(request.settled.keys, expected=request.settled.expected)
        response = Response(tuple(encode(encodable_result(row)).decode() for row in results))
    except AgentvError as error:
        response = Response(error=str(error), is_config=isinstance(error, ConfigError))
    return msgspec.json.encode(response) + b"\n"


class ControllerRowSource:
    """Requests rows from the controller at `address`, on behalf of a worker."""

    def __init__(self, address: str) -> None:
        port, _, token = address.partition(" ")
        self._socket = socket.create_connection(("127.0.0.1", int(port)))
        self._file = self._socket.makefile("rwb")
        self._file.write(f"{token}\n".encode())

    def of_case(self, wanted: WantedCases, all_wanted: Sequence[WantedCases]) -> tuple[CaseResult, ...]:
        """Return the rows of the case in `wanted`. Raises AgentvError if it cannot be run."""
        return self._request(Request(tuple(all_wanted), wanted=wanted))

    def of_answer(self, given: GivenAnswer, all_wanted: Sequence[WantedCases]) -> CaseResult:
        """Return the row of a given answer. Raises ConfigError for evaluators that cannot be used."""
        (row,) = self._request(Request(tuple(all_wanted), given=given))
        return row

    def settle(self, keys: Sequence[ResultKey], *, expected: str | None) -> None:
        """Report the outcome of a test whose rows under `keys` did not pass."""
        self._request(Request(settled=Settled(tuple(keys), expected)))

    def end(self, ending: SessionEnding) -> EndedRun | None:  # noqa: ARG002 - the controller decides
        """Close the connection: the run belongs to the controller."""
        self._file.close()
        self._socket.close()
        return None

    def _request(self, request: Request) -> tuple[CaseResult, ...]:
        try:
            self._file.write(msgspec.json.encode(request) + b"\n")
            self._file.flush()
            response = _decode_response(self._file.readline())
        except (OSError, msgspec.DecodeError) as error:
            raise AgentvError(f"the controller of pytest-xdist does not answer: {error}") from error
        if response.error is not None:
            raise (ConfigError if response.is_config else AgentvError)(response.error)
        return tuple(RESULTS.of_line(row.encode()) for row in response.rows)
