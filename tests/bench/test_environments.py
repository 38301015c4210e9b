"""The environments of peers are pinned, and a peer that cannot be measured is reported. None is created here."""

import json
import os
import sys
from pathlib import Path

import pytest

from bench.__main__ import README, present
from bench.comparison import Comparison, compared
from bench.environments import (
    PEERS,
    PeerMissingError,
    npm_project_of,
    requirements_of,
    version_of,
    with_environment,
)
from bench.harness import AGENTV, PYDANTIC_EVALS, Harness, HarnessError, in_turns
from bench.harnesses.job import Job
from bench.measuring import Effort
from bench.rows import AtMostTimes


@pytest.mark.parametrize("peer", PEERS.values(), ids=lambda peer: peer.name)
def test_every_peer_and_all_that_it_needs_is_pinned(peer: Harness) -> None:
    lines = [line for line in requirements_of(peer).read_text("utf-8").splitlines() if not line.startswith("#")]
    assert [line for line in lines if "==" not in line] == []
    assert version_of(peer)


def test_what_npm_fetches_is_of_one_version_and_one_day() -> None:
    (project,) = (npm_project_of(peer) for peer in PEERS.values() if npm_project_of(peer).exists())
    dependencies = json.loads((project / "package.json").read_text("utf-8"))["dependencies"]
    assert [version for version in dependencies.values() if not version[0].isdigit()] == []
    settings = (project / ".npmrc").read_text("utf-8").splitlines()
    assert [line for line in settings if line.startswith("before=")]
    assert "ignore-scripts=true" in settings


@pytest.mark.parametrize("peer", PEERS.values(), ids=lambda peer: peer.name)
def test_every_peer_has_its_program_and_is_explained(peer: Harness) -> None:
    assert (README.parent / "harnesses" / f"{peer.program}.py").is_file()
    assert f"| {peer.name} |" in README.read_text("utf-8")


def test_without_uv_a_peer_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("UV", raising=False)
    with pytest.raises(PeerMissingError, match="its environment needs uv, which is not installed: https://"):
        with_environment(PEERS[PYDANTIC_EVALS], tmp_path / "cache")


@pytest.mark.parametrize("is_on_path", [True, False])
def test_a_failed_installation_leaves_no_environment_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_on_path: bool
) -> None:
    uv = tmp_path / "bin" / "uv"
    uv.parent.mkdir()
    uv.write_text("#!/bin/sh\necho no route to host >&2\nexit 2\n")
    uv.chmod(0o755)
    monkeypatch.setenv("PATH", str(uv.parent if is_on_path else tmp_path))
    monkeypatch.setenv("UV", str(uv))
    with pytest.raises(PeerMissingError, match="check the network"):
        with_environment(PEERS[PYDANTIC_EVALS], tmp_path / "cache")
    assert list((tmp_path / "cache").iterdir()) == []


UV_THAT_MAKES_A_BROKEN_NPM = """#!/bin/sh
[ "$1" = venv ] || exit 0
for place; do :; done
mkdir "$place/bin"
printf '#!/bin/sh\\necho no such version >&2\\nexit 1\\n' > "$place/bin/npm"
chmod +x "$place/bin/npm"
"""


def test_a_peer_that_npm_cannot_fetch_leaves_no_environment_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    uv = tmp_path / "bin" / "uv"
    uv.parent.mkdir()
    uv.write_text(UV_THAT_MAKES_A_BROKEN_NPM)
    uv.chmod(0o755)
    monkeypatch.setenv("PATH", f"{uv.parent}{os.pathsep}{os.environ['PATH']}")
    with pytest.raises(PeerMissingError, match="npm: no such version"):
        with_environment(PEERS["promptfoo"], tmp_path / "cache")
    assert list((tmp_path / "cache").iterdir()) == []


def test_peers_that_are_missing_are_left_out_and_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("UV", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert present([PEERS[PYDANTIC_EVALS]]) == ()
    assert "pydantic-evals is skipped: its environment needs uv" in capsys.readouterr().err


def test_a_harness_that_does_not_pass_every_case_is_no_result() -> None:
    broken = Harness("broken", "bare_popen", sys.executable)
    with pytest.raises(HarnessError, match="broken failed on Job"):
        broken.run(Job(kind="commands", cases=1, at_once=0))


def test_a_peer_that_fails_is_left_out_and_costs_the_others_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    peer = Harness("peer", "nowhere", python="false")
    done = in_turns((peer, AGENTV), Job(kind="echo", cases=1), rounds=2)
    assert {name: len(used) for name, used in done.items()} == {"agentv run": 2}
    assert capsys.readouterr().err.count("skipped: peer failed on") == 1
    comparison = Comparison(work="w", take=lambda used: used.cpu_s, target=AtMostTimes(1.0), against="peer")
    (row,) = compared(comparison, done, "agentv run", ["peer"])
    assert row.verdict == "not compared"


def test_harnesses_take_turns_and_slow_ones_take_part_in_fewer_rounds() -> None:
    job = Job(kind="echo", cases=1)
    done = in_turns((AGENTV, Harness("slow", "bare_loop", rounds=1)), job, rounds=2)
    assert {name: len(used) for name, used in done.items()} == {"agentv run": 2, "slow": 1}


def test_a_peer_runs_only_its_kinds_of_jobs() -> None:
    effort = Effort(peers=tuple(PEERS.values()))
    named = {peer.name for peer in effort.peers_for(Job(kind="judge", cases=1))}
    assert "braintrust" not in named
    assert PYDANTIC_EVALS in named
    assert effort.peers_for(Job(kind="commands", cases=1)) == (PEERS["promptfoo"],)
