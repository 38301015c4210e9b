"""The proxies that the environment names: HTTPS_PROXY, HTTP_PROXY, ALL_PROXY and NO_PROXY."""

from base64 import b64encode
from collections.abc import Mapping
from urllib.parse import unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

from agentv.types.hosts import is_loopback


def proxy_for(url: str) -> str | None:
    """Return the URL of the proxy for a URL; None for this machine, and for a host that needs none."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    if is_loopback(host) or proxy_bypass(host):
        return None
    proxies = getproxies()
    proxy = proxies.get(parts.scheme) or proxies.get("all")
    return f"http://{proxy}" if proxy and "://" not in proxy else proxy or None


def proxy_headers(proxy: str) -> Mapping[str, str]:
    """Return the headers with the credentials that the URL of a proxy has."""
    return {} if (basic := basic_credentials(proxy)) is None else {"Proxy-Authorization": basic}


def basic_credentials(url: str) -> str | None:
    """Return the value of an Authorization header from the user-info of a URL; None without it."""
    parts = urlsplit(url)
    if parts.username is None:
        return None
    credentials = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    return f"Basic {b64encode(credentials.encode()).decode()}"
