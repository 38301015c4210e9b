"""Packages of extras: whether they are there is told before a run, not by its first answer."""

from importlib.util import find_spec

from agentv.types.errors import MissingExtraError


def require_extra(package: str, feature: str, extra: str) -> None:
    """Raise ValueError saying how to install an extra when its package is missing; nothing is imported."""
    if find_spec(package) is None:
        raise ValueError(str(MissingExtraError(feature, extra)))
