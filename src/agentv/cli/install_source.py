"""Where agentv can be installed from: what `agentv init` writes into the jobs for CI."""

import json
import re
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from urllib.parse import urlsplit

from agentv.types.errors import ConfigError

_ARCHIVE = re.compile(r"\.(whl|zip|tar\.gz)$")


def install_source(given: str | None) -> str:
    """Return what `pip install` takes to install agentv: from `given`, a path or URL, else as this one was installed.

    Raises ConfigError when `given` cannot be installed from, or must not stand in a file.
    """
    if given is not None:
        return _url(given) if "://" in given else _path(given)
    try:
        return recorded_source(distribution("agentv").read_text("direct_url.json"))
    except PackageNotFoundError:
        return "agentv"


def recorded_source(direct_url: str | None) -> str:
    """Return the source that an installer recorded (PEP 610); `agentv` for None, which means a package index."""
    if direct_url is None:
        return "agentv"
    recorded = json.loads(direct_url)
    url: str = recorded["url"]
    if vcs := recorded.get("vcs_info"):
        url = f"{vcs['vcs']}+{url}@{vcs['commit_id']}"
    return f"{url}#subdirectory={recorded['subdirectory']}" if "subdirectory" in recorded else url


def _path(given: str) -> str:
    path = Path(given).expanduser().resolve()
    if not path.exists():
        raise ConfigError(f"--from {given}: no such file or folder; a URL has :// in it")
    if path.is_dir() and not (path / "pyproject.toml").is_file():
        raise ConfigError(f"--from {given}: no pyproject.toml in this folder; name a clone of agentv, or a wheel")
    return path.as_uri()


def _url(given: str) -> str:
    try:
        url = urlsplit(given)
    except ValueError:
        url = None
    if url is None or re.search(r"\s", given):
        raise ConfigError(f"--from {given}: not a URL")
    if url.password or (url.username and "ssh" not in url.scheme):
        raise ConfigError("--from: a URL with a password or token would be committed; leave it out")
    is_repository = url.scheme in ("http", "https") and not _ARCHIVE.search(url.path)
    return f"git+{given}" if is_repository else given
