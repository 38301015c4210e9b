"""Providers of promptfoo as targets, also MCP servers and A2A agents; secrets in plain text become variables."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import cast

from msgspec import Struct, field

from agentv.importers.located import Located
from agentv.importers.promptfoo.code import PromptfooCode, relative_path
from agentv.importers.promptfoo.templates import with_environment
from agentv.loading.targets.openai_services import OPENAI_SERVICES
from agentv.templating.secrets import has_secret_prefix, looks_secret, secrets_in_urls
from agentv.types.json_value import JsonObject, JsonValue

_AUTH_SCHEME = re.compile(r"((?:bearer|basic|token|apikey)\s+)?(.+)", re.IGNORECASE | re.DOTALL)
_VARIABLE_ADVICE = "set this variable; secrets do not belong in files"


def setting(place: Located, name: str = "", *, advice: str = _VARIABLE_ADVICE) -> JsonValue:
    """Return a setting with `${{ NAME }}` for `{{ env.NAME }}`, and for a secret in plain text, which is recorded.

    A text is a secret if its key, or the option before it in a list, has the name of a secret, or if it starts like a
    known kind of API key.
    """
    value = place.value
    name = name or str(place.at[-1] if place.at else "")
    if isinstance(value, Mapping):
        return {key: setting(item, advice=advice) for key, item in place.entries()}
    if isinstance(value, list | tuple):
        options = ("", *(item if isinstance(item, str) and item.startswith("-") else "" for item in value))
        return [setting(place.get(index), options[index] or name, advice=advice) for index in range(len(value))]
    if not isinstance(value, str) or "{{" in value:
        return with_environment(value, place)
    found = _AUTH_SCHEME.fullmatch(value)
    if found is None or not (looks_secret(name) or has_secret_prefix(found[2])):
        return with_environment(url_without_secrets(value, place, advice), place)
    variable = re.sub(r"\W+", "_", name).strip("_").upper()
    reference = f"{found[1] or ''}${{{{ {variable} }}}}"
    place.drop(f"`{name}` is a secret in plain text; it becomes {reference}", advice)
    return reference


def url_without_secrets(text: str, place: Located, advice: str = _VARIABLE_ADVICE) -> str:
    """Return a text with a variable for each secret in its URLs (a password, a key in the query); record each."""
    for secret in sorted(set(secrets_in_urls(text)), key=len, reverse=True):
        if secret in text:
            text = text.replace(secret, f"{_URL_REFERENCE}@" if secret.endswith("@") else _URL_REFERENCE)
            place.drop(f"a URL has a secret in plain text; it becomes {_URL_REFERENCE}", advice)
    return text


_URL_REFERENCE = "${{ URL_SECRET }}"


def settings_by_name(place: Located) -> dict[str, JsonValue]:
    """Return an object of settings, such as headers, converted by `setting`; record any other value and return {}."""
    settings = setting(place)
    if isinstance(settings, dict):
        return settings
    if place.value is not None:
        place.drop(f"`{place.at[-1]}` is not an object; it is not carried over")
    return {}


def optional_setting(key: str, value: JsonValue) -> dict[str, JsonValue]:
    """Return an object with a setting, {} if it has no value."""
    return {key: value} if value else {}


_MCP_KEYS = {
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
_MCP_SERVER_KEYS = {
    "command": None,
    "args": None,
    "env": None,
    "url": None,
    "headers": None,
    "name": None,
    "path": "write its interpreter as `command`, and the path into `args`",
    "auth": "write `headers: {Authorization: …}`",
}
_A2A_KEYS = {
    "url": None,
    "agentCardUrl": None,
    "headers": None,
    "auth": None,
    "mode": None,
    "timeout": None,
    "timeoutMs": None,
    "agentCard": "the card is read below `url`",
    "polling": "a task is polled until it ends or `timeout_seconds` have passed",
    "protocolVersion": "the agent's card names it",
    "tenant": "the agent's card names it",
    "transformResponse": "the answer is the text of the response",
}
_STREAMING: dict[str, JsonValue] = {"stream": "on", "send": "off", "auto": "auto"}


def mcp_target(config: Located, folder: Path) -> dict[str, JsonValue] | None:
    """Return the target of an MCP server, whose questions name tool and arguments as in promptfoo.

    `folder` is that of the eval file that is written: the server starts in the folder of the configuration.
    """
    config.drop_unsupported(_MCP_KEYS, "an mcp provider", losing=("defaultArgs",))
    enabled = config.get("enabled")
    if enabled.value is False:
        enabled.lose("an mcp provider that is not enabled is not carried over")
        return None
    if enabled.value not in (None, True):
        enabled.drop("`enabled` is neither true nor false; it is not carried over")
    server = config.get("server")
    server.drop_unsupported(_MCP_SERVER_KEYS, "the server of an mcp provider")
    target: dict[str, JsonValue] = {"provider": "mcp"}
    for key in ("command", "args", "url"):
        if server.get(key).value is not None:
            target[key] = setting(server.get(key))
    for key in ("env", "headers"):
        target |= optional_setting(key, settings_by_name(server.get(key)))
    if ("command" in target) == ("url" in target):
        config.lose("an mcp provider needs the command or the url of one server")
        return None
    cwd = relative_path(config.folder, folder)
    if "command" in target and cwd != ".":
        target["cwd"] = cwd
    return {**target, **_timeout(config, "timeout")}


def a2a_target(url: str, config: Located) -> dict[str, JsonValue] | None:
    """Return the target of an A2A agent, whose card must be below its URL."""
    config.drop_unsupported(_A2A_KEYS, "an a2a provider", losing=("transformResponse",))
    endpoint = setting(config.get("url")) or with_environment(url_without_secrets(url, config), config)
    address = setting(config.get("agentCardUrl")) or endpoint
    if not isinstance(address, str) or not address:
        config.lose("an a2a provider needs the url of its agent")
        return None
    target: dict[str, JsonValue] = {"provider": "a2a", "url": address}
    if endpoint and endpoint != address:
        target["endpoint"] = endpoint
    headers = settings_by_name(config.get("headers"))
    auth = config.get("auth")
    token = with_environment(auth.get("token").text(), auth)
    if auth.get("type").text() == "bearer" and "${{" in str(token):  # a token in plain text is never copied
        headers["Authorization"] = f"Bearer {token}"
    elif auth.value is not None:
        auth.drop("`auth` is not carried over", "write `headers: {NAME: ${{ VARIABLE }}}`")
    target |= optional_setting("headers", headers)
    mode = config.get("mode")
    if mode.text() in _STREAMING:
        target["streaming"] = _STREAMING[mode.text()]
    elif mode.value is not None:
        mode.drop("`mode` is none of auto, send and stream; it is not carried over")
    return {**target, **_timeout(config, "timeout"), **_timeout(config, "timeoutMs")}


def _timeout(config: Located, key: str) -> dict[str, JsonValue]:
    milliseconds = config.get(key).number()
    return {} if milliseconds is None else {"timeout_seconds": milliseconds / 1000}


_PROVIDER_KEYS = {
    "id": None,
    "label": None,
    "config": None,
    "prompts": "a run sends every prompt to every target; use two suites to keep them apart",
    "transform": "use `response` of an http target, or a python target",
    "delay": "use `requests_per_minute`",
    "env": "set these variables in the environment or in .env",
    "inputs": "use `vars` of the cases",
}
_GIVEN_ANSWERS = "given-answers"
_MODES = ("chat", "completion", "responses", "messages", "embedding", "embeddings")
_MAX_NAME_CHARACTERS = 60
_PYTHON_ADVICE = "read it with os.environ in this function; secrets do not belong in files"
_RESPONSE_PATH = re.compile(r"(?:json|output)((?:\.\w+|\[(?:\d+|'\w+'|\"\w+\")\])*)")


class Targets(Struct):
    """The targets that are being made, in order, with unique names."""

    folder: Path
    """The folder of the eval file that is written."""
    code: PromptfooCode
    by_name: dict[str, dict[str, JsonValue]] = field(default_factory=dict)
    judges: set[str] = field(default_factory=set)
    lost: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """For each target, what is lost of its requests and answers."""

    def add(self, source: Located) -> str | None:
        """Add the target of a provider unless an equal one exists; return its name, None without a counterpart."""
        before = len(source.losses.errors)
        target = _target(source, self.folder, self.code)
        if target is None:
            return None
        name = _name(source)
        for number in range(1, len(self.by_name) + 2):
            candidate = name if number == 1 else f"{name}-{number}"
            if self.by_name.setdefault(candidate, target) == target:
                self.lost.setdefault(candidate, source.losses.reasons_since(before))
                return candidate
        return None

    def add_judge(self, source: Located) -> str | None:
        """Add a target that judges; return its name."""
        before = set(self.by_name)
        name = self.add(source)
        if name is not None and name not in before:
            self.judges.add(name)
        return name

    def add_given(self, case_id: str, answer: str) -> str:
        """Add a given answer to the target that replays given answers; return its name."""
        target = self.by_name.setdefault(_GIVEN_ANSWERS, {"provider": "mock", "response": {}})
        target["response"] = {**cast(JsonObject, target["response"]), case_id: answer}
        return _GIVEN_ANSWERS

    def add_default_judge(self) -> str:
        """Add the model that judges in promptfoo if no other is named; return its name."""
        name = "promptfoo-judge"
        self.by_name[name] = {"provider": "openai", "model": "gpt-5.5-2026-04-23", "api_key": "${{ OPENAI_API_KEY }}"}
        self.judges.add(name)
        return name

    def listed(self) -> tuple[JsonObject, ...]:
        """Return the entries of a targets file."""
        return tuple({"name": name, **settings} for name, settings in self.by_name.items())


def provider_entries(source: Located) -> "list[Located]":
    """Return each provider; `{openai:gpt-4: {...}}` has its id as its key."""
    return list(source.items())


def names_of(source: Located) -> tuple[str, str]:
    """Return the label of a provider, "" without one, and its id."""
    id_, _, options = _identity(source)
    return (options.get("label").text() if isinstance(options.value, Mapping) else ""), id_


def _identity(source: Located) -> tuple[str, Located, Located]:
    """Return the id of a provider, the place of the id, and the provider's options."""
    value = source.value
    if not isinstance(value, Mapping):
        return source.text(), source, source
    if "id" not in value and len(value) == 1:
        key, options = next(source.entries())
        return options.get("id").text() or key, options, options
    return source.get("id").text(), source.get("id"), source


def _name(source: Located) -> str:
    id_, _, options = _identity(source)
    label = options.get("label").text() if isinstance(options.value, Mapping) else ""
    written = label or id_.removeprefix("file://")
    for secret in set(secrets_in_urls(written)):
        written = written.replace(secret, "")
    name = re.sub(r"[^\w.-]+", "-", written).strip("-")
    return name[:_MAX_NAME_CHARACTERS] or "target"


def _target(source: Located, folder: Path, code: PromptfooCode) -> dict[str, JsonValue] | None:
    """Return the target of a provider without its name; None, with a record, if it has no counterpart."""
    id_, place, options = _identity(source)
    if isinstance(options.value, Mapping):
        options.drop_unsupported(_PROVIDER_KEYS, "a provider", losing=("transform",))
    config = options.get("config")
    if config.value is None:
        config = Located(options.document, options.losses, options.folder, at=(*options.at, "config"), value=None)
    if id_.startswith("file://") and Path(id_).suffix in (".yaml", ".yml", ".json"):
        place.lose(f"the provider in {id_} is not carried over", "copy it into the configuration")
        return None
    path, _, function = id_.removeprefix("python:").removeprefix("file://").partition(":")
    if Path(path).suffix == ".py":
        called = code.target_of_file(
            source.folder / path, function or "call_api", setting(config, advice=_PYTHON_ADVICE)
        )
        return {"provider": "python", "callable": called}
    target = _target_of_id(id_, place, config, folder, code)
    if target is None:
        place.lose(f"the provider {id_!r} is not carried over",
                   "targets are cli, http, python, or a model API (docs/reference/targets.md)")  # fmt: skip
    return target


def _target_of_id(
    id_: str, place: Located, config: Located, folder: Path, code: PromptfooCode
) -> dict[str, JsonValue] | None:
    """Return the target of a provider by its id, such as `openai:gpt-5`; None without a counterpart."""
    head, _, rest = id_.partition(":")
    if head == "mcp":
        return mcp_target(config, folder)
    if head == "a2a":
        return a2a_target(rest, config)
    if head in ("http", "https") or (config.get("url").value is not None and head not in OPENAI_SERVICES):
        return _http(id_ if rest.startswith("//") else "", config, place)
    if head == "exec":
        if any(map(has_secret_prefix, re.split(r"[\s='\"]+", rest))):
            place.lose("the command has a secret in plain text; it is not carried over", "let it read a variable")
            return None
        code.unread.setdefault(f"`{rest.strip()}`")
        return _command(rest.strip(), config, folder)
    if id_ == "echo":
        return {"provider": "cli", "command_template": "cat {PROMPT_FILE}"}
    if head == "webhook":
        return {
            "provider": "http",
            "url": url_without_secrets(rest, place),
            "body": {"prompt": "{{ question }}"},
            "response": "$.output",
        }
    mode, _, model = rest.partition(":")
    if mode not in _MODES:
        mode, model = "chat", rest
    return _model(head, mode, model, config)


def _model(head: str, mode: str, model: str, config: Located) -> dict[str, JsonValue] | None:
    """Return the target of a model API; None for an unknown one."""
    if head == "openai" and model and not re.match(r"(?:codex|agents|realtime|assistant|chatkit|image|transcription)",
                                                   f"{mode}:{model}".removeprefix("chat:")):  # fmt: skip
        target: dict[str, JsonValue] = {"provider": "openai", "model": model}
        if mode == "responses":
            target["api"] = "responses"
        return _with_model_settings(target, config, "OPENAI_API_KEY")
    if head == "anthropic" and model and not model.startswith("claude-agent-sdk"):
        return _with_model_settings({"provider": "anthropic", "model": model}, config, "ANTHROPIC_API_KEY")
    if head in ("azure", "azureopenai") and model:
        host = config.get("apiHost").text()
        endpoint = (f"https://{host}" if host else "") or config.get("apiBaseUrl").text() or "${{ AZURE_API_BASE_URL }}"
        target = {"provider": "azure", "deployment": model, "endpoint": endpoint}
        if config.get("apiVersion").value is not None:
            target["api_version"] = config.get("apiVersion").text()
        return _with_model_settings(target, config, "AZURE_API_KEY")
    if head == "google" and model:
        return _with_model_settings({"provider": "gemini", "model": model}, config, "GOOGLE_API_KEY")
    if head == "vertex" and model.startswith("gemini"):
        target = {"provider": "gemini", "model": model}
        target["project"] = config.get("projectId").text() or "${{ GOOGLE_CLOUD_PROJECT }}"
        target["location"] = config.get("region").text() or "us-central1"
        return _with_model_settings(target, config, None)
    if head in OPENAI_SERVICES and model:
        address, key = OPENAI_SERVICES[head]
        return _with_model_settings({"provider": "openai", "base_url": address, "model": model}, config, key)
    return None


_MODEL_SETTINGS = {"temperature": "temperature", "max_tokens": "max_output_tokens",
             "max_completion_tokens": "max_output_tokens",
             "max_output_tokens": "max_output_tokens", "maxOutputTokens": "max_output_tokens",
             "tools": "tools", "apiBaseUrl": "base_url"}  # fmt: skip
_BODY_KEYS = frozenset({
    "top_p", "top_k", "seed", "stop", "frequency_penalty", "presence_penalty", "tool_choice", "response_format",
    "reasoning_effort", "reasoning", "verbosity", "thinking", "logprobs", "metadata", "service_tier", "store", "user",
})  # fmt: skip
_HANDLED_KEYS = frozenset({"apiHost", "apiVersion", "projectId", "region"})
_ADVICE = {
    "apiKey": "write `api_key: ${{ NAME }}` and set the variable; keys do not belong in files",
    "organization": "use `extra_headers: {OpenAI-Organization: …}`",
    "cost": "use `price: {input_per_million, output_per_million}`",
    "functionToolCallbacks": "use `tool_responses: {tool: python:FILE.py:NAME}`",
    "passthrough": "use `extra_body`",
}


def _with_model_settings(target: dict[str, JsonValue], config: Located, variable: str | None) -> dict[str, JsonValue]:
    """Return a target with the settings of a provider; `variable` is that of its API key."""
    body: dict[str, JsonValue] = {}
    for option, place in config.entries():
        value = with_environment(place.value, place)
        if isinstance(value, str) and value.startswith("file://"):
            place.drop(f"`{option}` in {value} is not carried over", "copy its content")
        elif option in _MODEL_SETTINGS and not (target["provider"] == "azure" and option == "apiBaseUrl"):
            target[_MODEL_SETTINGS[option]] = setting(place)
        elif option in _BODY_KEYS:
            body[option] = setting(place)
        elif option == "passthrough" and isinstance(value, Mapping):
            body.update(settings_by_name(place))
        elif option == "headers":
            target |= optional_setting("extra_headers", settings_by_name(place))
        elif option == "apiKeyEnvar":
            variable = place.text()
        elif option == "apiKey" and isinstance(value, str) and value.startswith("${{"):
            target["api_key"] = value
        elif option not in _HANDLED_KEYS and option != "apiBaseUrl":
            advice = _ADVICE.get(option, "what the API itself understands goes into `extra_body`")
            place.drop(f"`{option}` is not carried over", advice)
    if variable and "api_key" not in target:
        target["api_key"] = f"${{{{ {variable} }}}}"
    if body:
        target["extra_body"] = body
    return target


_HTTP_KEYS = {
    "url": None,
    "method": None,
    "headers": None,
    "body": None,
    "transformResponse": None,
    "responseParser": None,
    "queryParams": "write them into the url",
    "request": "write method, url, headers and body",
    "transformRequest": "write the body as the service expects it",
    "sessionParser": "a session needs a python target",
    "validateStatus": "2xx is a success",
    "maxRetries": None,
    "auth": "write `headers: {Authorization: …}`",
    "signatureAuth": "sign requests in a python target",
    "tls": "use the system's certificates",
    "stateful": "a session needs a python target",
}


def _http(url: str, config: Located, place: Located) -> dict[str, JsonValue] | None:
    losing = ("queryParams", "request", "transformRequest")
    config.drop_unsupported(_HTTP_KEYS, "an http provider", losing=losing)
    address = _with_question_variable(
        setting(config.get("url")) or with_environment(url_without_secrets(url, place), place)
    )
    if not isinstance(address, str) or not address.startswith(("http", "${{")):
        place.lose("an http provider without a url is not carried over")
        return None
    target: dict[str, JsonValue] = {"provider": "http", "url": address}
    target |= optional_setting("headers", _with_question_variable(settings_by_name(config.get("headers"))))
    for key in ("method", "body"):
        if config.get(key).value is not None:
            target[key] = _with_question_variable(setting(config.get(key)))
    if config.get("maxRetries").value is not None:
        target["max_retries"] = config.get("maxRetries").value
    for key in ("transformResponse", "responseParser"):
        parser = config.get(key)
        match = _RESPONSE_PATH.fullmatch(parser.text().strip())
        if match:
            target["response"] = f"${match[1]}"
        elif parser.value is not None:
            parser.lose(f"`{key}` is not carried over: it is code", "write a JSONPath under `response`: $.a.b[0]")
    return target


def _with_question_variable(value: JsonValue) -> JsonValue:
    """Return a setting with `{{ prompt }}` as our `{{ question }}`."""
    if isinstance(value, str):
        return re.sub(r"\{\{\s*prompt\s*(?:\|\s*dump\s*)?\}\}", "{{ question }}", value)
    if isinstance(value, Mapping):
        return {key: _with_question_variable(item) for key, item in value.items()}
    return [_with_question_variable(item) for item in value] if isinstance(value, list) else value


def _command(command: str, config: Located, folder: Path) -> dict[str, JsonValue]:
    """Return the target of a command, which gets the prompt as its last argument."""
    for key, place in config.entries():
        if key not in ("basePath", "timeout"):
            place.drop(f"`{key}` is not carried over", "write further arguments into `command_template`")
    target: dict[str, JsonValue] = {"provider": "cli", "command_template": f"{command} {{PROMPT}}"}
    base = config.folder / config.get("basePath").text()
    cwd = relative_path(base, folder)
    timeout = config.get("timeout").number()
    if cwd != ".":
        target["cwd"] = cwd
    return target if timeout is None else {**target, "timeout_seconds": timeout / 1000}
