"""The addresses that may get the messages of a case: an agent's card is not trusted to name any of them."""

import asyncio
import ipaddress
import socket
from collections.abc import Collection
from urllib.parse import SplitResult, urlsplit

from agentv.types.failures import Failure
from agentv.types.hosts import is_loopback, is_unspecified
from agentv.types.provider import ProviderError

_METADATA = frozenset(map(ipaddress.ip_address, ("fd00:ec2::254", "100.100.100.200", "168.63.129.16", "192.0.0.192")))
"""The addresses of cloud metadata services that are not link-local."""


async def check_reachable(url: str, allow_hosts: Collection[str]) -> None:
    """Raise ProviderError for a URL whose host is, or resolves to, a link-local or metadata address.

    A host in `allow_hosts` always passes, and so does a name that does not resolve here.
    """
    host = host_of(url)
    if host in map(str.lower, allow_hosts):
        return
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return
    if any(_is_internal(str(address[0])) for *_, address in found):
        message = f"{url} is a link-local or metadata address; if it is right, set `allow_hosts: [{host}]`"
        raise ProviderError(Failure("config_error", message))


def host_of(url: str) -> str:
    """Return the host of a URL in lower case, without brackets; "" without one."""
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


def _is_internal(text: str) -> bool:
    address = ipaddress.ip_address(text.partition("%")[0])
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    return address.is_link_local or address in _METADATA


def is_same_host(one: str, other: str) -> bool:
    """Return True for URLs with the same host. `localhost`, loopback addresses and 0.0.0.0 count as one."""
    hosts = (host_of(one), host_of(other))
    return hosts[0] == hosts[1] or all(is_loopback(host) or is_unspecified(host) for host in hosts)


def is_same_origin(one: str, other: str) -> bool:
    """Return True for URLs with the same scheme, host (see `is_same_host`) and port."""
    first, second = urlsplit(one), urlsplit(other)
    return is_same_host(one, other) and (first.scheme, _port(first)) == (second.scheme, _port(second))


def _port(parts: SplitResult) -> int | None:
    return {"http": 80, "https": 443}.get(parts.scheme) if parts.port is None else parts.port
