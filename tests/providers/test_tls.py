"""Servers with a certificate: only one with a valid certificate gets a request; the error names what is wrong."""

import json
import os
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.support.certificates import DAY, Authority, tls_of
from tests.support.loopback import reply, serving


def row_of(folder: Path, url: str, authority: Path | None) -> dict[str, Any]:
    """Run one case against an HTTP target, in a process that may trust an authority; return its result."""
    target = {
        "name": "t",
        "provider": "http",
        "url": url,
        "body": {"q": "{{ question }}"},
        "max_retries": 2,
        "headers": {"X-Key": "${{ KEY }}"},
    }
    (folder / "targets.yaml").write_text(json.dumps({"targets": [target]}))
    case = {
        "id": "a",
        "input": "hi",
        "expected_outcome": "x",
        "evaluators": [{"name": "same", "type": "equals", "value": "hi"}],
    }
    (folder / "s.eval.yaml").write_text(json.dumps({"evalcases": [case]}))
    environment = {**os.environ, "KEY": "secret", **({"SSL_CERT_FILE": str(authority)} if authority else {})}
    command = [sys.executable, "-m", "agentv", "run", "s.eval.yaml", "--target", "t", "-o", "rows.jsonl"]
    subprocess.run(command, cwd=folder, env=environment, check=False, capture_output=True, timeout=60)
    (row,) = map(json.loads, (folder / "rows.jsonl").read_text().splitlines())
    return dict(row)


@pytest.mark.parametrize(
    ("host", "ends", "is_trusted", "said"),
    [
        (
            "127.0.0.1",
            DAY,
            False,
            "unable to get local issuer certificate; if you trust its authority, set SSL_CERT_FILE",
        ),
        ("127.0.0.1", -DAY, True, "certificate has expired"),
        ("example.org", DAY, True, "IP address mismatch, certificate is not valid for '127.0.0.1'"),
    ],
)
def test_no_request_is_sent_to_a_server_without_a_valid_certificate(
    host: str, ends: timedelta, is_trusted: bool, said: str, tmp_path: Path
) -> None:
    authority = Authority(tmp_path)
    with serving(reply("hi"), tls=tls_of(authority.certificate(host, ends=ends))) as server:
        row = row_of(tmp_path, server.url, authority.file if is_trusted else None)
    assert (row["status"], row["error"]["kind"], row["error"]["retryable"]) == ("error", "transport", False)
    assert f"the certificate of 127.0.0.1:{server.port} is not accepted: {said}" in row["error"]["message"]
    assert server.requests == []


def test_a_server_with_a_certificate_of_a_trusted_authority_answers(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    with serving(reply("hi"), tls=tls_of(authority.certificate("127.0.0.1"))) as server:
        row = row_of(tmp_path, server.url, authority.file)
    assert (row["verdict"], row["candidate_answer"], len(server.requests)) == ("pass", "hi", 1)
