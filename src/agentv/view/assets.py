"""The style sheet and the script of the viewer, at addresses that contain their digests."""

import hashlib
from functools import cache
from importlib import resources

from msgspec import Struct

_PREFIX = "/assets/"
_SOURCES = {
    "view.css": (("agentv.reports.document", "report.css"), ("agentv.view", "static/view.css")),
    "view.js": (("agentv.view", "static/view.js"),),
}
_TYPES = {"css": "text/css", "js": "text/javascript"}


class Asset(Struct, frozen=True):
    """A file of the viewer; its address changes with its content, so that browsers can keep it."""

    address: str
    content_type: str
    body: bytes


@cache
def assets() -> dict[str, Asset]:
    """Return the viewer's files by name, such as `view.css`."""
    return {name: _asset(name) for name in _SOURCES}


def asset_at(address: str) -> Asset | None:
    """Return the file at an address, or None."""
    return next((each for each in assets().values() if each.address == address), None)


def _asset(name: str) -> Asset:
    body = b"\n".join(resources.files(package).joinpath(path).read_bytes() for package, path in _SOURCES[name])
    stem, _, suffix = name.rpartition(".")
    digest = hashlib.sha256(body).hexdigest()[:16]
    return Asset(f"{_PREFIX}{stem}-{digest}.{suffix}", _TYPES[suffix], body)
