"""The environments of peers: each its own, made by uv from pinned versions, kept in the user's cache."""

import hashlib
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from tempfile import mkdtemp

from bench.harness import PYDANTIC_EVALS, ROOT, Harness
from bench.harnesses.job import Kind

REQUIREMENTS = ROOT / "bench" / "requirements"
_WITHOUT_JUDGE: tuple[Kind, ...] = ("echo", "ask")

PEERS = {
    peer.name: peer
    for peer in (
        Harness(PYDANTIC_EVALS, "pydantic_evals"),
        Harness("braintrust", "braintrust", kinds=_WITHOUT_JUDGE),
        Harness("deepeval", "deepeval", rounds=1),
        Harness("inspect-ai", "inspect_ai", rounds=1),
    )
}
"""Every peer by the name of its package, which is also that of its file of pinned versions."""


class PeerMissingError(Exception):
    """A peer cannot be measured here; says why, and what to do."""


def with_environment(peer: Harness, cache: Path) -> Harness:
    """Return a peer with the interpreter of its environment, which is made in `cache` when it is not there yet.

    Raises PeerMissingError without uv, or where packages cannot be fetched.
    """
    requirements = requirements_of(peer)
    digest = hashlib.sha256(requirements.read_bytes() + sys.version.encode()).hexdigest()[:12]
    place = cache / f"{peer.name}-{digest}"
    if not place.exists():
        _make(requirements, place)
    return replace(peer, python=str(_python(place)))


def requirements_of(peer: Harness) -> Path:
    """Return the file that pins a peer and all that it needs."""
    return REQUIREMENTS / f"{peer.name}.txt"


def version_of(peer: Harness) -> str:
    """Return the version of a peer that is pinned."""
    lines = requirements_of(peer).read_text(encoding="utf-8").splitlines()
    return next(line.partition("==")[2] for line in lines if line.startswith(f"{peer.name}=="))


def cache_folder() -> Path:
    """Return where environments are kept, outside the repository."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "agentv-bench"


def _make(requirements: Path, place: Path) -> None:
    """Make an environment under another name first: one that is half made is never taken for whole."""
    uv = shutil.which("uv")
    if uv is None:
        raise PeerMissingError("uv makes the environments of peers and is not installed: https://docs.astral.sh/uv/")
    place.parent.mkdir(parents=True, exist_ok=True)
    making = Path(mkdtemp(dir=place.parent, prefix="making-"))
    try:
        _call(uv, "venv", "--quiet", "--relocatable", "--clear", "--python", sys.executable, str(making))
        _call(uv, "pip", "install", "--quiet", "--python", str(_python(making)), "--requirements", str(requirements))
        making.rename(place)
    finally:
        shutil.rmtree(making, ignore_errors=True)


def _call(*command: str) -> None:
    environment = {"UV_SYSTEM_CERTS": "1", **os.environ}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)  # noqa: S603 - ours
    if done.returncode != 0:
        words = (done.stderr or done.stdout).strip()[-500:]
        raise PeerMissingError(f"its packages could not be installed; is the network there? uv says: {words}")


def _python(environment: Path) -> Path:
    return environment / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
