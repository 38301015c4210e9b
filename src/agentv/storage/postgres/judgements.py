"""A store for criteria judgements (`run_evaluation`): a table of the team database."""

import os
import threading
import weakref
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta, Struct

from agentv.execution.forks import ProcessLock, call_in_forks
from agentv.execution.threads import call_in_thread
from agentv.storage.judgements.configurations import split_configuration
from agentv.storage.postgres.connection import answer_in_time, check_driver, connect, store_errors
from agentv.storage.postgres.line_columns import fitting_text
from agentv.storage.postgres.migrations import check_version
from agentv.storage.records.json_line import encode
from agentv.templating.environment import fill_variables, variables_in
from agentv.templating.store_url import StoreUrl, parse_store_url
from agentv.types.aggregated_result import AggregatedEvaluationResult
from agentv.types.errors import ConfigError, StorageError, TemplateError
from agentv.types.json_value import JsonObject
from agentv.types.structs import repr_without

if TYPE_CHECKING:
    from agentv.storage.postgres.connection import Connection

_ADD_JUDGEMENT = """
INSERT INTO agentv.judgements (line, time, agent_id, session_id, overall_score, verdict, scored, expected, run_errors,
    judge_cost_usd) VALUES (%b, %s, %s, %s, %s, %s, %s, %s, %s, %s)
"""


_ADD_CONFIG = "INSERT INTO agentv.judgement_configs (sha256, config) VALUES (%s, %b) ON CONFLICT DO NOTHING"


class PostgresSettings(Struct, frozen=True, kw_only=True):
    """Settings of `postgres`."""

    url: Annotated[
        str,
        Meta(description="`postgresql://user@host/database`; `${{ NAME }}` is replaced by an environment variable"),
    ]

    def __repr__(self) -> str:
        """Return the default repr without the password."""
        return repr_without(self, "url")

    def __post_init__(self) -> None:
        """Raise ValueError unless the URL is a valid store URL."""
        try:
            variables_in(self.url)
            if "${{" not in self.url:
                parse_postgres_url(self.url)
        except (ConfigError, TemplateError) as error:
            raise ValueError(f"`url`: {error}") from None


def parse_postgres_url(text: str) -> StoreUrl:
    """Return the URL of a PostgreSQL database. Raises ConfigError for any other URL."""
    url = parse_store_url(text)
    if url.scheme not in ("postgresql", "postgres"):
        raise ConfigError(f"expected a store URL like postgresql://user@host/database, not {url.scheme}://…")
    return url


def make_postgres(settings: PostgresSettings, base_dir: str) -> "PostgresStorageProvider":  # noqa: ARG001 - a factory's signature
    """Make a `postgres` store. Raises ConfigError for a variable that is not set, MissingExtraError without psycopg."""
    check_driver()
    missing = [name for name in variables_in(settings.url) if not os.environ.get(name)]
    if missing:
        raise ConfigError(f"the store's url needs the environment variable {missing[0]}, which is not set")
    return PostgresStorageProvider(fill_variables(settings.url, os.environ))


class PostgresStorageProvider:
    """Stores each judgement as a row of `agentv.judgements`; the column `line` holds it as JSON with camelCase keys.

    The JSON names the configuration by hash (`configSha256` in its `evaluationConfigSnapshot`); each configuration is
    a row of `agentv.judgement_configs`.

    The store connects for the first judgement and stays connected. Before each judgement, a broken connection is
    replaced by a new one. A forked process connects anew. The event loop is not blocked.
    """

    kind = "postgres"

    def __init__(self, url: str) -> None:
        self.url: StoreUrl = parse_postgres_url(url)
        self._connections: list[Connection] = []
        # A store is not closed by its caller, so its connection is closed when the store is collected.
        weakref.finalize(self, _close_all, self._connections)
        call_in_forks(self._leave_connection)
        self._lock = ProcessLock()
        self._stored_hashes: set[str] = set()

    async def save_result(self, result: AggregatedEvaluationResult) -> None:
        """Store one judgement; when this returns, it is committed. Raises StorageError."""
        # Not a thread of the event loop: those are few, and the program has other uses for them.
        is_given_up = threading.Event()
        try:
            await call_in_thread(self._save, result, is_given_up, timeout_s=None)
        finally:
            is_given_up.set()

    def close(self) -> None:
        """Close the connection; the next judgement opens another."""
        with self._lock:
            _close_all(self._connections)

    def _leave_connection(self) -> None:
        """Leave the connection to the parent of this process: closing it here would end it there."""
        self._connections.clear()

    def _save(self, result: AggregatedEvaluationResult, is_given_up: threading.Event) -> None:
        split = split_configuration(result.to_dict())
        with self._lock:
            if is_given_up.is_set():  # its caller waited too long for others
                return
            if any(_is_broken(connection, self.url) for connection in self._connections):
                _close_all(self._connections)
            if not self._connections:
                self._connections.append(self._connect())
            connection = self._connections[0]
            with answer_in_time(connection, self.url), store_errors(self.url, "cannot store a judgement"):
                if split.config is not None and split.sha256 not in self._stored_hashes:
                    connection.execute(_ADD_CONFIG, [split.sha256, encode(split.config)])
                    self._stored_hashes.add(split.sha256)
                connection.execute(_ADD_JUDGEMENT, _row(result, split.record))

    def _connect(self) -> "Connection":
        connection = connect(self.url)
        try:
            with store_errors(self.url, "cannot be read"):
                check_version(connection, self.url)
        except BaseException:
            connection.close()
            raise
        return connection


def _is_broken(connection: "Connection", url: StoreUrl) -> bool:
    """Return True if a connection broke since its last use. Retrying an insert instead could store a row twice."""
    if connection.closed:
        return True
    try:
        with answer_in_time(connection, url), store_errors(url, "cannot be reached"):
            connection.execute("SELECT 1")
    except StorageError:
        return True
    return False


def _close_all(connections: "list[Connection]") -> None:
    while connections:
        connections.pop().close()


def _row(result: AggregatedEvaluationResult, record: JsonObject) -> list[object]:
    return [
        encode(record),
        result.timestamp,
        fitting_text(result.agent_id),
        fitting_text(result.session_id),
        result.overall_score,
        result.verdict,
        result.scored,
        result.expected,
        len(result.run_errors),
        result.judge_cost_usd,
    ]
