"""The environments of peers: one each, created by uv from pinned versions in the user's cache.

For a peer that runs on Node, Node is installed from PyPI, and its npm installs the rest.
"""

import hashlib
import json
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
_ALL_KINDS: tuple[Kind, ...] = ("echo", "ask", "judge", "commands")

PEERS = {
    peer.name: peer
    for peer in (
        Harness(PYDANTIC_EVALS, "pydantic_evals"),
        Harness("braintrust", "braintrust", kinds=_WITHOUT_JUDGE),
        Harness("deepeval", "deepeval", rounds=1),
        Harness("inspect-ai", "inspect_ai", rounds=1),
        Harness("promptfoo", "promptfoo", kinds=_ALL_KINDS, rounds=1),
    )
}
"""Every peer by the name of its package, which is also the name of its file of pinned versions."""


class PeerMissingError(Exception):
    """A peer cannot be measured here; the message has the reason and what to do."""


def with_environment(peer: Harness, cache: Path) -> Harness:
    """Return a peer with the interpreter of its environment, which is created in `cache` when needed.

    Raises PeerMissingError without uv, or when packages cannot be downloaded.
    """
    pins = (requirements_of(peer), *_files_of(npm_project_of(peer)))
    digest = hashlib.sha256(b"".join(pin.read_bytes() for pin in pins) + sys.version.encode()).hexdigest()[:12]
    place = cache / f"{peer.name}-{digest}"
    if not place.exists():
        _make(peer, place)
    return replace(peer, python=str(_python(place)))


def requirements_of(peer: Harness) -> Path:
    """Return the file that pins a peer and its dependencies, or Node for a peer that npm installs."""
    return REQUIREMENTS / f"{peer.name}.txt"


def npm_project_of(peer: Harness) -> Path:
    """Return the folder that pins a peer for npm; it exists for few peers."""
    return REQUIREMENTS / f"{peer.name}.npm"


def version_of(peer: Harness) -> str:
    """Return the pinned version of a peer."""
    project = npm_project_of(peer)
    if project.exists():
        return str(json.loads((project / "package.json").read_bytes())["dependencies"][peer.name])
    lines = requirements_of(peer).read_text(encoding="utf-8").splitlines()
    return next(line.partition("==")[2] for line in lines if line.startswith(f"{peer.name}=="))


def cache_folder() -> Path:
    """Return the folder of all environments, outside the repository."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "agentv-bench"


def _files_of(project: Path) -> list[Path]:
    return sorted(project.iterdir()) if project.exists() else []


def _make(peer: Harness, place: Path) -> None:
    """Create an environment in a temporary folder, then rename it, so that a partial one is never used."""
    uv = shutil.which("uv") or os.environ.get("UV")  # the uv that runs us need not be on the path
    if uv is None:
        raise PeerMissingError("its environment needs uv, which is not installed: https://docs.astral.sh/uv/")
    place.parent.mkdir(parents=True, exist_ok=True)
    making = Path(mkdtemp(dir=place.parent, prefix="making-"))
    try:
        python, requirements = str(_python(making)), str(requirements_of(peer))
        _call(uv, "venv", "--quiet", "--relocatable", "--clear", "--python", sys.executable, str(making))
        _call(uv, "pip", "install", "--quiet", "--python", python, "--requirements", requirements)
        project = npm_project_of(peer)
        if project.exists():
            shutil.copytree(project, making, dirs_exist_ok=True)
            _call(str(_python(making).with_name("npm")), "install", "--prefix", str(making))
        making.rename(place)
    finally:
        shutil.rmtree(making, ignore_errors=True)


def _call(*command: str) -> None:
    environment = {"UV_SYSTEM_CERTS": "1", **os.environ}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)  # noqa: S603 - ours
    if done.returncode != 0:
        output = f"{Path(command[0]).stem}: {(done.stderr or done.stdout).strip()[-500:]}"
        raise PeerMissingError(f"its packages cannot be installed; check the network. {output}")


def _python(environment: Path) -> Path:
    return environment / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
