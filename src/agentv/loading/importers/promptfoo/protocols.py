"""Providers of promptfoo that speak a protocol, as targets: MCP servers and A2A agents."""

from pathlib import Path

from agentv.loading.importers.located import Located
from agentv.loading.importers.promptfoo.code import relative_path
from agentv.loading.importers.promptfoo.settings import named, setting, settings_by_name, url_without_secrets
from agentv.loading.importers.promptfoo.templates import with_environment
from agentv.types.json_value import JsonValue

_MCP = {
    "server": None,
    "timeout": None,
    "enabled": None,
    "debug": None,
    "verbose": None,
    "servers": "write a target for each server",
    "tools": "each question names its tool",
    "exclude_tools": "each question names its tool",
    "defaultArgs": "write `tool` and `arguments` with {{ variables }}",
}
_SERVER = {
    "command": None,
    "args": None,
    "env": None,
    "url": None,
    "headers": None,
    "name": None,
    "path": "write its interpreter as `command`, and the path into `args`",
    "auth": "write `headers: {Authorization: …}`",
}
_A2A = {
    "url": None,
    "agentCardUrl": None,
    "headers": None,
    "auth": None,
    "mode": None,
    "timeout": None,
    "timeoutMs": None,
    "agentCard": "the card is read below `url`",
    "polling": "a task is polled until it is over, or `timeout_seconds`",
    "protocolVersion": "the agent's card names it",
    "tenant": "the agent's card names it",
    "transformResponse": "the answer is the text of the reply",
}
_STREAMING: dict[str, JsonValue] = {"stream": "on", "send": "off", "auto": "auto"}


def mcp_target(config: Located, folder: Path) -> dict[str, JsonValue] | None:
    """Return the target of an MCP server, whose questions name tool and arguments as in promptfoo.

    `folder` is that of the eval file that is written: the server starts in the folder of the configuration.
    """
    config.keep_only(_MCP, "an mcp provider")
    enabled = config.get("enabled")
    if enabled.value is False:
        enabled.lose("an mcp provider that is not enabled is not carried over")
        return None
    if enabled.value not in (None, True):
        enabled.lose("`enabled` is neither true nor false; it is not carried over")
    server = config.get("server")
    server.keep_only(_SERVER, "the server of an mcp provider")
    made: dict[str, JsonValue] = {"provider": "mcp"}
    for key in ("command", "args", "url"):
        if server.get(key).value is not None:
            made[key] = setting(server.get(key))
    for key in ("env", "headers"):
        made |= named(key, settings_by_name(server.get(key)))
    if ("command" in made) == ("url" in made):
        config.lose("an mcp provider needs the command or the url of one server")
        return None
    cwd = relative_path(config.folder, folder)
    if "command" in made and cwd != ".":
        made["cwd"] = cwd
    return {**made, **_timeout(config, "timeout")}


def a2a_target(url: str, config: Located) -> dict[str, JsonValue] | None:
    """Return the target of an A2A agent, whose card must be below its URL."""
    config.keep_only(_A2A, "an a2a provider")
    endpoint = setting(config.get("url")) or with_environment(url_without_secrets(url, config), config)
    address = setting(config.get("agentCardUrl")) or endpoint
    if not isinstance(address, str) or not address:
        config.lose("an a2a provider needs the url of its agent")
        return None
    made: dict[str, JsonValue] = {"provider": "a2a", "url": address}
    if endpoint and endpoint != address:
        made["endpoint"] = endpoint
    headers = settings_by_name(config.get("headers"))
    auth = config.get("auth")
    token = with_environment(auth.get("token").text(), auth)
    if auth.get("type").text() == "bearer" and "${{" in str(token):  # a token in plain text is never copied
        headers["Authorization"] = f"Bearer {token}"
    elif auth.value is not None:
        auth.lose("`auth` is not carried over", "write `headers: {NAME: ${{ VARIABLE }}}`")
    made |= named("headers", headers)
    mode = config.get("mode")
    if mode.text() in _STREAMING:
        made["streaming"] = _STREAMING[mode.text()]
    elif mode.value is not None:
        mode.lose("`mode` is none of auto, send and stream; it is not carried over")
    return {**made, **_timeout(config, "timeout"), **_timeout(config, "timeoutMs")}


def _timeout(config: Located, key: str) -> dict[str, JsonValue]:
    milliseconds = config.get(key).number()
    return {} if milliseconds is None else {"timeout_seconds": milliseconds / 1000}
