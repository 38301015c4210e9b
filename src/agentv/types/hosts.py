"""Names and addresses of hosts: which mean this machine, and which host a Host header names."""

import re
from ipaddress import ip_address

_LOCAL_NAME = "localhost"
_HOST = re.compile(r"(?:\[([\da-fA-F:.]+)\]|([\w.-]+))(?::\d+)?", re.ASCII)
"""A Host header as clients send it: a name or an address, and maybe a port."""


def host_name(header: str | None) -> str | None:
    """Return the name or address in a Host header, in lower case; None for a header without one."""
    found = _HOST.fullmatch(header or "")
    return None if found is None else (found[1] or found[2]).lower()


def is_loopback(host: str) -> bool:
    """Return True for a name or address that only this machine can reach."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == _LOCAL_NAME


def is_unspecified(host: str) -> bool:
    """Return True for an address such as 0.0.0.0, which stands for all of a machine and which no browser sends."""
    try:
        return ip_address(host).is_unspecified
    except ValueError:
        return False


def url_of(host: str, port: int) -> str:
    """Return the URL of an HTTP server, without a path."""
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"
