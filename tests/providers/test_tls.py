"""Servers with a certificate: only one with a valid certificate gets a request; the error names what is wrong."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from tests.support.certificates import DAY, Authority, tls_of
from tests.support.loopback import Server, reply, serving

Called: TypeAlias = tuple[Server, dict[str, Any]]
"""A server and the result of the case that was sent to it."""

CASE = {"id": "a", "input": "hi", "evaluators": [{"name": "same", "type": "equals", "value": "hi"}]}


@pytest.fixture(scope="module")
def called(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, Called]]:
    """Servers with certificates of one authority; only the run that calls `unknown` does not trust it."""
    folder = tmp_path_factory.mktemp("tls")
    authority = Authority(folder)
    valid = authority.certificate("127.0.0.1")
    certificates = {
        "valid": valid,
        "unknown": valid,
        "expired": authority.certificate("127.0.0.1", ends=-DAY),
        "elsewhere": authority.certificate("example.org"),
    }
    with ExitStack() as stack:
        servers = {
            name: stack.enter_context(serving(reply("hi"), tls=tls_of(file))) for name, file in certificates.items()
        }
        (folder / "targets.yaml").write_text(json.dumps({"targets": [*map(target, servers, servers.values())]}))
        (folder / "s.eval.yaml").write_text(json.dumps({"evalcases": [CASE]}))
        trusting = results(folder, *(name for name in servers if name != "unknown"), authority=authority.file)
        found = {**trusting, **results(folder, "unknown", authority=None)}
        yield {name: (server, found[name]) for name, server in servers.items()}


def target(name: str, server: Server) -> dict[str, Any]:
    headers = {"X-Key": "${{ KEY }}"}
    return {"name": name, "provider": "http", "url": server.url, "body": {"q": "{{ question }}"}, "headers": headers}


def results(folder: Path, *targets: str, authority: Path | None) -> dict[str, dict[str, Any]]:
    """Return the results of targets by their name, from a process that trusts an authority or none."""
    environment = {**os.environ, "KEY": "secret", **({"SSL_CERT_FILE": str(authority)} if authority else {})}
    selected = [word for name in targets for word in ("--target", name)]
    command = [sys.executable, "-m", "agentv", "run", "s.eval.yaml", *selected, "-o", "rows.jsonl"]
    subprocess.run(command, cwd=folder, env=environment, check=False, capture_output=True, timeout=60)
    rows = map(json.loads, (folder / "rows.jsonl").read_text().splitlines())
    return {row["target"]: row for row in rows}


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("unknown", "unable to get local issuer certificate; if you trust its authority, set SSL_CERT_FILE"),
        ("expired", "certificate has expired"),
        ("elsewhere", "IP address mismatch, certificate is not valid for '127.0.0.1'"),
    ],
)
def test_a_server_without_a_valid_certificate_gets_no_request(
    called: Mapping[str, Called], name: str, reason: str
) -> None:
    server, row = called[name]
    assert (row["status"], row["error"]["kind"], row["error"]["retryable"]) == ("error", "transport", False)
    assert f"the certificate of 127.0.0.1:{server.port} is not accepted: {reason}" in row["error"]["message"]
    assert server.requests == []


def test_a_server_with_a_certificate_of_a_trusted_authority_answers(called: Mapping[str, Called]) -> None:
    server, row = called["valid"]
    assert (row["verdict"], row["candidate_answer"], len(server.requests)) == ("pass", "hi", 1)
