"""Connections to a database with TLS are as protected as their URL demands, or fail with one message."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.support.certificates import DAY, Authority
from tests.support.ports import free_port
from tests.support.postgres_server import UNPRIVILEGED_UID, PackagedServer

from agentv.storage.postgres.connection import connect
from agentv.templating.store_url import parse_store_url
from agentv.types.errors import StorageError

PASSWORD = "s3cret-pw"


class Authorities:
    """The authority that signed the certificates of the servers, and another one."""

    def __init__(self, folder: Path) -> None:
        for name in ("trusted", "other"):
            (folder / name).mkdir()
        self.trusted, self.other = Authority(folder / "trusted"), Authority(folder / "other")
        self.server = self.trusted.certificate("127.0.0.1")
        self.client = self.trusted.certificate("client")


@pytest.fixture(scope="module")
def authorities(tmp_path_factory: pytest.TempPathFactory) -> Authorities:
    return Authorities(tmp_path_factory.mktemp("authorities"))


@contextmanager
def serving(rule: str, certificate: Path | None, authority: Authority) -> Iterator[str]:
    """Yield the address of a server with a rule of pg_hba.conf; without a certificate it has no TLS."""
    program = shutil.which("postgres")
    if program is None:
        pytest.skip(
            "needs a PostgreSQL server with TLS: `postgres` is not on the PATH, and the packaged one has no TLS"
        )
    server = PackagedServer(Path(program).resolve().parent)
    try:
        library = subprocess.run(
            [program, "-C", "ssl_library", "-D", server.data],
            capture_output=True,
            check=False,
            user=UNPRIVILEGED_UID if os.geteuid() == 0 else None,
        )
        if not library.stdout.strip():
            pytest.skip(f"{program} has no TLS")
        port = free_port()
        (server.data / "pg_hba.conf").write_text(f"local all all trust\n{rule} all all 127.0.0.1/32 trust\n")
        settings = ["listen_addresses=127.0.0.1"]
        if certificate is not None:
            for source, name, mode in ((certificate, "server.pem", 0o600), (authority.file, "authority.pem", 0o644)):
                shutil.copy(source, server.data / name)
                (server.data / name).chmod(mode)
                if os.geteuid() == 0:
                    shutil.chown(server.data / name, UNPRIVILEGED_UID)
            own = ("cert_file=server.pem", "key_file=server.pem", "ca_file=authority.pem")
            settings += ["ssl=on", *(f"ssl_{setting}" for setting in own)]
        server.start(*settings, port=port)
        yield f"127.0.0.1:{port}"
    finally:
        server.remove()


@pytest.fixture(scope="module")
def encrypting(authorities: Authorities) -> Iterator[str]:
    with serving("hostssl", authorities.server, authorities.trusted) as address:
        yield address


def connected(address: str, parameters: str) -> bool:
    """Connect, and return whether the connection is encrypted."""
    url = parse_store_url(f"postgresql://postgres:{PASSWORD}@{address}/postgres?{parameters}")
    with connect(url) as connection:
        found = connection.execute("SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()").fetchone()
    assert found is not None
    return bool(found[0])


def problem(address: str, parameters: str) -> str:
    """Return why a connection fails."""
    with pytest.raises(StorageError) as refused:
        connected(address, parameters)
    said = str(refused.value)
    assert PASSWORD not in said
    assert "\n" not in said
    return said


def test_a_server_with_a_trusted_certificate_is_used_encrypted(encrypting: str, authorities: Authorities) -> None:
    assert connected(encrypting, f"sslmode=verify-full&sslrootcert={authorities.trusted.file}")
    assert connected(encrypting, "sslmode=require")
    assert connected(encrypting, "ssl=true")
    assert connected(encrypting, "")


def test_a_certificate_of_another_authority_is_refused(encrypting: str, authorities: Authorities) -> None:
    assert "SSL error" in problem(encrypting, f"sslmode=verify-full&sslrootcert={authorities.other.file}")
    assert "certificate verify failed" in problem(encrypting, "sslmode=verify-full&sslrootcert=system")


def test_a_certificate_of_another_host_is_refused(encrypting: str, authorities: Authorities) -> None:
    parameters = f"sslmode=verify-full&sslrootcert={authorities.trusted.file}"
    assert "does not match host name" in problem(encrypting.replace("127.0.0.1", "localhost"), parameters)


def test_a_connection_in_plain_text_is_refused_by_a_server_that_demands_tls(encrypting: str) -> None:
    assert "no encryption" in problem(encrypting, "sslmode=disable")


def test_an_expired_certificate_is_refused(authorities: Authorities) -> None:
    expired = authorities.trusted.certificate("127.0.0.1", ends=-2 * DAY)
    with serving("hostssl", expired, authorities.trusted) as address:
        parameters = f"sslmode=verify-full&sslrootcert={authorities.trusted.file}"
        assert "certificate verify failed" in problem(address, parameters)


@pytest.mark.parametrize("mode", ["require", "verify-ca", "verify-full"])
def test_a_server_without_tls_is_never_used_in_plain_text_instead(authorities: Authorities, mode: str) -> None:
    with serving("host", None, authorities.trusted) as address:
        said = problem(address, f"sslmode={mode}&sslrootcert={authorities.trusted.file}")
        assert "server does not support SSL, but SSL was required" in said


def test_a_client_shows_its_certificate(authorities: Authorities) -> None:
    with serving("hostssl", authorities.server, authorities.trusted) as address:
        assert connected(address, f"sslmode=require&sslcert={authorities.client}&sslkey={authorities.client}")
        other = authorities.other.certificate("client")
        assert "SSL error" in problem(address, f"sslmode=require&sslcert={other}&sslkey={other}")
