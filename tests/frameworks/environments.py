"""The environments of frameworks: one each, made by uv or npm from the lock in tests/frameworks/NAME.

They are in the user's cache (`agentv-frameworks`), 60 to 170 MB each, CrewAI 835 MB.
"""

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

FOLDER = Path(__file__).parent
PAGES: Mapping[str, str] = {
    name: f"docs/how-to/frameworks/{name}.md"
    for name in ("pydantic-ai", "openai-agents", "langgraph", "openai", "anthropic", "google-adk", "crewai", "ai-sdk")
}
NAMES = tuple(PAGES)
_NO_NETWORK = (
    "failed to fetch",
    "failed to download",
    "network",
    "offline",
    "dns",
    "enotfound",
    "enotcached",
    "eai_again",
    "econn",
    "etimedout",
)


class MissingError(Exception):
    """A framework cannot be had here; the message says why."""


def prepare(name: str, folder: Path) -> Path:
    """Return the `agentv` beside a framework, whose environment is made where it is missing.

    Packages for Node are linked into `folder`, where the agent is. Raises MissingError where uv, npm or the packages
    cannot be had, and AssertionError if the lock is at fault.
    """
    if name == "crewai" and os.environ.get("AGENTV_CREWAI") != "1":
        raise MissingError("CrewAI is 835 MB: set AGENTV_CREWAI=1 to run it")
    place = _place_of(name)
    if name == "ai-sdk":
        shutil.copytree(FOLDER / name, place, dirs_exist_ok=True)
        if not (place / "node_modules").exists():
            _install(name, [_found("npm", name), "ci", "--loglevel=error", "--prefix", str(place)])
        (folder / "node_modules").symlink_to(place / "node_modules")
        return Path(sys.executable).with_name("agentv")
    # `--frozen`: the lock stays valid when agentv's own requirements change.
    command = [_found("uv", name), "sync", "--frozen", "--quiet", "--project", str(FOLDER / name)]
    _install(name, command, UV_PROJECT_ENVIRONMENT=str(place))
    return place / "bin" / "agentv"


def _place_of(name: str) -> Path:
    """Return the folder of an environment, in the user's cache: one for each lock and each clone of agentv."""
    pins = b"".join(path.read_bytes() for path in sorted((FOLDER / name).glob("*lock*")))
    digest = hashlib.sha256(pins + str(FOLDER).encode() + sys.version.encode()).hexdigest()[:12]
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "agentv-frameworks" / f"{name}-{digest}"


def _found(program: str, name: str) -> str:
    found = os.environ.get(program.upper()) or shutil.which(program)
    if found is None:
        raise MissingError(f"{name} needs {program}, which makes its environment")
    return found


def _install(name: str, command: list[str], **more: str) -> None:
    environment = {each: value for each, value in os.environ.items() if each != "VIRTUAL_ENV"}
    done = subprocess.run(command, env={**environment, **more}, capture_output=True, text=True, check=False)
    lines = done.stderr.splitlines() if done.returncode else []
    reason = next((line.strip() for line in lines if any(word in line.lower() for word in _NO_NETWORK)), None)
    if reason is not None:
        raise MissingError(f"the packages of {name} cannot be downloaded: {reason}")
    assert done.returncode == 0, done.stderr


def variables(url: str, folder: Path) -> Mapping[str, str]:
    """Return the environment in which every SDK calls the fake model server at `url` and reports to nobody."""
    return {
        "PATH": os.pathsep.join((str(Path(shutil.which("node") or "/usr/bin/node").parent), "/usr/bin", "/bin")),
        "HOME": str(folder),
        "LANG": "C.UTF-8",
        "OPENAI_BASE_URL": f"{url}/v1",
        "OPENAI_API_KEY": "none",
        "OPENAI_AGENTS_DISABLE_TRACING": "1",
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_API_KEY": "none",
        "GOOGLE_GEMINI_BASE_URL": url,
        "GOOGLE_API_KEY": "none",
        "LANGSMITH_TRACING": "false",
        "CREWAI_DISABLE_TELEMETRY": "true",
        "CREWAI_TRACING_ENABLED": "false",
        "OTEL_SDK_DISABLED": "true",
        "DO_NOT_TRACK": "1",
    }
