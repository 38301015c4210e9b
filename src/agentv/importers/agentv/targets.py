"""Targets files of AgentV 1.5 to 4.42, translated key by key into ours; a file may mix the keys of several versions.

References to variables stay as written, with two exceptions: a reference as `provider` is filled, and an optional
setting is removed if its variable is not set, since AgentV ignores it then. `use_target` and `fallback_targets` are our
own keys too, and are not translated.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from agentv.importers.agentv.generations import (
    EARLIER_TARGETS_SCHEMAS,
    REFUSED_PROVIDERS,
    canonical_provider,
    settings_names,
)
from agentv.loading.files.documents import Document, JsonPath
from agentv.loading.models.targets_files import TargetModel, TargetsFileModel
from agentv.loading.translation.translation import Translation
from agentv.registry import ProviderSpec, Registry
from agentv.templating.environment import REFERENCE, is_reference
from agentv.types.errors import nearest
from agentv.types.json_value import JsonValue, snake_case

Translate: TypeAlias = Callable[[Translation, JsonPath], None]

_SDKS = {"copilot-sdk": "copilot", "copilot_sdk": "copilot", "claude-sdk": "claude"}
_LOG_KEYS = ("log_format", "stream_log", "log_dir")
"""Settings for logs: an agent that writes no log ignores them."""
_OPTIONAL_KEYS = ("cwd", "log_dir", "executable", "api_version", "workspace_template", "subagent_root")
"""Settings that AgentV ignores if they are one reference to a variable that is not set."""

OPENROUTER_URL = "https://openrouter.ai/api/v1"
_MODELS_OF_AGENTV: Mapping[str, Mapping[str, str]] = {
    "openai": {"provider": "openai", "api_key": "${{ OPENAI_API_KEY }}"},
    "anthropic": {"provider": "anthropic", "api_key": "${{ ANTHROPIC_API_KEY }}"},
    "google": {"provider": "gemini", "api_key": "${{ GOOGLE_GENERATIVE_AI_API_KEY }}"},
    "azure": {
        "provider": "azure",
        "api_key": "${{ AZURE_API_KEY }}",
        "endpoint": "${{ AZURE_RESOURCE_NAME }}",
    },
}
"""Our settings for `model: PREFIX:NAME` of AgentV's own provider, with the variables that AgentV reads."""


def translate_targets(document: Document, providers: Registry[ProviderSpec], env: Mapping[str, str]) -> Translation:
    """Return the translation of a targets file for which `is_agentv_targets` returns True."""
    entries = document.at(("targets",))
    translation = Translation(document)
    _translate_head(translation)
    for index in range(len(entries) if isinstance(entries, list) else 0):
        at = ("targets", index)
        if translation.entries(at):
            _translate_target(translation, at, providers, env)
    return translation


def _translate_head(translation: Translation) -> None:
    entries = translation.entries(())
    if "providers" in entries and "targets" not in entries:
        message = "this is an AgentV 5 file; only files of AgentV 1.5 to 4.42 can be read"
        translation.refuse(("providers",), message, "write the targets under `targets:` (docs/reference/targets.md)")
        translation.remove((), "providers")
        translation.put((), "targets", [], like="providers")
    if entries.get("$schema") in EARLIER_TARGETS_SCHEMAS:
        translation.ignore((), "$schema")
    for key in tuple(entries):
        if key not in TargetsFileModel.names().spellings:
            translation.drop((key,), f"{key!r} is not a key of AgentV's targets files, and has no effect")


def _translate_target(
    translation: Translation, at: JsonPath, providers: Registry[ProviderSpec], env: Mapping[str, str]
) -> None:
    entries = translation.entries(at)
    translation.rename(at, "grader_target", "judge")
    translation.ignore(at, "$schema")
    if "use_target" in entries:
        for key in tuple(entries.keys() - {"name", "use_target"}):
            translation.drop((*at, key), f"{key!r} has no effect together with `use_target`, as in AgentV")
        return
    _fill_provider(translation, at, env)
    provider = _translate_provider(translation, at, providers)
    translation.drop_any(
        at,
        {
            "subagent_mode_allowed": "AgentV's `subagent_mode_allowed` has no counterpart here",
            "max_budget_usd": "AgentV's `max_budget_usd` for one agent has no counterpart here; "
            "`agentv run --budget-usd` limits the whole run",
        },
    )
    if provider is not None:
        _PROVIDER_TRANSLATIONS.get(provider, _do_nothing)(translation, at)
        _drop_unset(translation, at, env)
        _drop_unknown(translation, at, provider, providers)


def _do_nothing(translation: Translation, at: JsonPath) -> None:
    """Do nothing: the provider has no keys of its own to translate."""


def _fill_provider(translation: Translation, at: JsonPath, env: Mapping[str, str]) -> None:
    """Fill a `provider` that is a reference to a variable, as AgentV 4 allows."""
    written = translation.entries(at).get("provider")
    if not isinstance(written, str) or not is_reference(written):
        return
    (name,) = REFERENCE.findall(written)
    if env.get(name):
        translation.put(at, "provider", env[name], like="provider")
    else:
        message = f"the variable {name} is not set, and the target needs it for 'provider'"
        translation.refuse((*at, "provider"), message, "set it in the environment or in a .env file")


def _translate_provider(translation: Translation, at: JsonPath, providers: Registry[ProviderSpec]) -> str | None:
    """Translate the provider's name; return our name for it, None if it is refused or unknown."""
    entries = translation.entries(at)
    name = entries.get("provider")
    if not isinstance(name, str) or REFERENCE.search(name):
        return None
    lower = name.lower()
    known = canonical_provider(name, providers) or canonical_provider(lower, providers)
    if known is None and lower in REFUSED_PROVIDERS:
        translation.refuse(
            (*at, "provider"), f"the provider {name!r} of AgentV 4 is not supported", REFUSED_PROVIDERS[lower]
        )
        return None
    if known is None and lower in PROVIDERS_OF_AGENTV:
        PROVIDERS_OF_AGENTV[lower](translation, at)
        renamed = entries.get("provider")
        return renamed if isinstance(renamed, str) and renamed != name else None
    if known is None and "command" in entries:  # a file in .agentv/providers/ of AgentV 4, which runs this command
        known = "cli"
    if known is not None and name != known and name not in providers.aliases:
        translation.put(at, "provider", known, like="provider")
    return known


def _renamed_to(provider: str) -> Translate:
    """Return the translation of a provider that differs from ours in its name alone."""
    return lambda translation, at: translation.put(at, "provider", provider, like="provider")


def _sdk(name: str) -> Translate:
    """Return the translation of a provider that AgentV 4 calls as a library."""

    def translate(translation: Translation, at: JsonPath) -> None:
        provider = _SDKS[name]
        message = f"AgentV 4 calls {name} as a library; here its program {provider!r} is run"
        translation.warn((*at, "provider"), message)
        translation.put(at, "provider", provider, like="provider")

    return translate


def _openrouter(translation: Translation, at: JsonPath) -> None:
    translation.put(at, "provider", "openai", like="provider")
    for key, value in (("base_url", OPENROUTER_URL), ("api_key", "${{ OPENROUTER_API_KEY }}")):
        if key not in translation.entries(at):
            translation.put(at, key, value, like="provider")


def _cc_mirror(translation: Translation, at: JsonPath) -> None:
    """Translate a variant of Claude Code, which is installed as a program of its own name."""
    translation.put(at, "provider", "claude", like="provider")
    _rename(translation, at, {"executable": ("binary", "command", "variant")})
    if "executable" not in translation.entries(at):
        translation.put(at, "executable", translation.entries(at).get("name"), like="provider")
    translation.remove(at, "variant", "binary", "command")


def _agentv(translation: Translation, at: JsonPath) -> None:
    """Translate AgentV's own provider, whose model is written `provider:model`."""
    model = translation.entries(at).get("model")
    prefix, colon, name = model.partition(":") if isinstance(model, str) else ("", "", "")
    if not colon or prefix not in _MODELS_OF_AGENTV:
        known = ", ".join(f"{each}:NAME" for each in _MODELS_OF_AGENTV)
        translation.refuse((*at, "provider"), "the provider 'agentv' of AgentV needs `model: provider:model`", known)
        return
    translation.put(at, "model", name, like="model")
    for key, value in _MODELS_OF_AGENTV[prefix].items():
        if key == "provider" or key not in translation.entries(at):
            translation.put(at, key, value, like="provider")


_KEYS_UNUSED_BY_REPLAY = ("cwd", "model", "timeout_seconds", "log_format", "log_dir")
"""Keys of an agent that have no effect when its log is replayed."""


def _copilot_log(translation: Translation, at: JsonPath) -> None:
    translation.put(at, "provider", "replay", like="provider")
    translation.rename(at, "session_dir", "copilot_log")
    folder = translation.entries(at).get("session_state_dir", "~/.copilot/session-state")
    session = translation.entries(at).get("session_id", "latest")
    if "copilot_log" not in translation.entries(at):
        translation.put(at, "copilot_log", f"{folder}/{session}", like="provider")
    translation.remove(at, "session_state_dir", "session_id", "discover")
    translation.ignore(at, *_KEYS_UNUSED_BY_REPLAY)


PROVIDERS_OF_AGENTV: Mapping[str, Translate] = {
    "claude-cli": _renamed_to("claude"),
    "pi-cli": _renamed_to("pi"),
    "openrouter": _openrouter,
    "cc-mirror": _cc_mirror,
    "agentv": _agentv,
    "copilot-log": _copilot_log,
    **{name: _sdk(name) for name in _SDKS},
}


def _rename(translation: Translation, at: JsonPath, spellings: Mapping[str, Sequence[str]]) -> None:
    """Rename the first of several spellings of each key, unless the key itself is there."""
    for key, others in spellings.items():
        for other in others:
            translation.rename(at, other, key)


def _cli(translation: Translation, at: JsonPath) -> None:
    _rename(
        translation,
        at,
        {
            "command_template": ("command",),
            "verbose": ("cli_verbose", "cliVerbose"),
            "keep_temp_files": ("keep_output_files", "keepOutputFiles"),
        },
    )
    check = translation.entries((*at, "healthcheck"))
    if check:
        place = (*at, "healthcheck")
        _rename(translation, place, {"command_template": ("command",)})
        if "type" not in check:
            kind = "http" if "url" in check else "command"
            translation.put(place, "type", kind, like="url" if "url" in check else "command_template")
    _workspace_template(translation, at)


def _workspace_template(translation: Translation, at: JsonPath) -> None:
    """Translate the template folder, which AgentV 1 to 3 copied for each case."""
    template = translation.entries(at).get("workspace_template", translation.entries(at).get("workspaceTemplate"))
    if isinstance(template, str) and "workspace" not in translation.entries(at):
        translation.put(at, "workspace", {"template": template}, like="workspace_template")
    translation.remove(at, "workspace_template", "workspaceTemplate")


def _model_api(translation: Translation, at: JsonPath) -> None:
    _rename(translation, at, {"max_output_tokens": ("maxTokens",), "model": ("deployment", "variant")})
    translation.remove(at, "deployment", "variant")


def _openai(translation: Translation, at: JsonPath) -> None:
    _model_api(translation, at)
    _rename(translation, at, {"base_url": ("endpoint",), "api": ("api_format",)})


def _azure(translation: Translation, at: JsonPath) -> None:
    _rename(translation, at, {"max_output_tokens": ("maxTokens",), "api_version": ("version",)})
    if translation.entries(at).get("api_format") == "chat":
        translation.ignore(at, "api_format")
    elif "api_format" in translation.entries(at):
        message = "AgentV's `api_format` of an azure target: the chat API is used here"
        translation.drop((*at, "api_format"), message)


def _agent(translation: Translation, at: JsonPath) -> None:
    """Translate the settings that all coding agents share."""
    _rename(
        translation,
        at,
        {
            "executable": ("command", "binary", "cli_path"),
            "args": ("arguments",),
            "log_dir": ("log_directory",),
            "log_format": ("log_output_format",),
        },
    )
    translation.remove(at, "command", "binary")
    _workspace_template(translation, at)
    args = translation.entries(at).get("args")
    if isinstance(args, str) and not is_reference(args):
        translation.put(at, "args", args.split(), like="args")


def _codex(translation: Translation, at: JsonPath) -> None:
    _agent(translation, at)
    for key, option in (("model", "--model"), ("model_reasoning_effort", "-c")):
        value = translation.entries(at).get(key)
        if value is None:
            continue
        given = translation.entries(at).get("args")
        word = str(value) if option == "--model" else f'model_reasoning_effort="{value}"'
        args = list(given) if isinstance(given, list) else []
        translation.put(at, "args", [*args, option, word], like=key)
        translation.remove(at, key)
    _to_env(translation, at, {"base_url": "OPENAI_BASE_URL", "api_key": "OPENAI_API_KEY"})


def _claude(translation: Translation, at: JsonPath) -> None:
    _agent(translation, at)
    _to_env(translation, at, {"base_url": "ANTHROPIC_BASE_URL", "api_key": "ANTHROPIC_API_KEY"})


def _pi(translation: Translation, at: JsonPath) -> None:
    _agent(translation, at)
    _rename(translation, at, {"pi_provider": ("subprovider",)})
    tools = translation.entries(at).get("tools")
    if isinstance(tools, str) and not is_reference(tools):
        translation.put(at, "tools", [tool.strip() for tool in tools.split(",") if tool.strip()], like="tools")
    provider = translation.entries(at).get("pi_provider")
    prefix = snake_case(provider).upper().replace("-", "_") if isinstance(provider, str) else "OPENAI"
    _to_env(translation, at, {"base_url": f"{prefix}_BASE_URL"})


# Copilot with the model of another provider ("bring your own key").
_BYOK_VARIABLES = {
    "type": "COPILOT_PROVIDER_TYPE",
    "base_url": "COPILOT_PROVIDER_BASE_URL",
    "api_key": "COPILOT_PROVIDER_API_KEY",
    "bearer_token": "COPILOT_PROVIDER_BEARER_TOKEN",
    "wire_api": "COPILOT_PROVIDER_WIRE_API",
    "api_version": "COPILOT_PROVIDER_AZURE_API_VERSION",
    "model": "COPILOT_MODEL",
}


def _copilot(translation: Translation, at: JsonPath) -> None:
    _agent(translation, at)
    place = (*at, "byok")
    if translation.entries(place):
        for key in tuple(translation.entries(place).keys() - _BYOK_VARIABLES.keys()):
            near = nearest(key, _BYOK_VARIABLES)
            hint = f"; did you mean {near!r}?" if near else ""
            translation.drop((*place, key), f"{key!r} is not a key of AgentV's `byok`, and has no effect{hint}")
        values = {_BYOK_VARIABLES[key]: value for key, value in translation.entries(place).items()}
        _add_env(translation, at, values, like="byok")
        translation.remove(at, "byok")
    _to_env(
        translation,
        at,
        {
            "base_url": "COPILOT_PROVIDER_BASE_URL",
            "subprovider": "COPILOT_PROVIDER_TYPE",
            "api_key": "COPILOT_PROVIDER_API_KEY",
            "github_token": "COPILOT_GITHUB_TOKEN",
        },
    )
    if "cli_url" in translation.entries(at):
        translation.drop((*at, "cli_url"), "AgentV's `cli_url`, a server of Copilot, is not used; its program is run")


def _to_env(translation: Translation, at: JsonPath, variables: Mapping[str, str]) -> None:
    """Move settings into the environment of the agent's program."""
    for key, variable in variables.items():
        value = translation.entries(at).get(key)
        if value is not None:
            _add_env(translation, at, {variable: value}, like=key)
        translation.remove(at, key)


def _add_env(translation: Translation, at: JsonPath, values: Mapping[str, JsonValue], *, like: str) -> None:
    """Add variables, without replacing those that the target sets itself."""
    if "env" not in translation.entries(at):
        translation.put(at, "env", {}, like=like)
    for key, value in values.items():
        if key not in translation.entries((*at, "env")):
            translation.put((*at, "env"), key, value, like=key)


def _replay(translation: Translation, at: JsonPath) -> None:
    _rename(
        translation, at, {"file": ("fixtures",), "recorded_target": ("source_target",), "recorded_suite": ("suite",)}
    )


def _mock(translation: Translation, at: JsonPath) -> None:
    if "trace" in translation.entries(at):
        message = "AgentV's `trace` of a mock target is not read"
        translation.drop((*at, "trace"), message, "write its tool calls as `output_messages`")


def _vscode(translation: Translation, at: JsonPath) -> None:
    _rename(translation, at, {"command": ("executable",)})


_PROVIDER_TRANSLATIONS: Mapping[str, Translate] = {
    "cli": _cli,
    "openai": _openai,
    "azure": _azure,
    "anthropic": _model_api,
    "gemini": _model_api,
    "codex": _codex,
    "claude": _claude,
    "pi": _pi,
    "copilot": _copilot,
    "vscode": _vscode,
    "vscode-insiders": _vscode,
    "replay": _replay,
    "mock": _mock,
}


def _drop_unset(translation: Translation, at: JsonPath, env: Mapping[str, str]) -> None:
    for place in (*((*at, key) for key in _OPTIONAL_KEYS), (*at, "healthcheck", "cwd")):
        value = translation.document.at(place)
        if isinstance(value, str) and is_reference(value) and (name := REFERENCE.findall(value)[0]) not in env:
            message = f"the variable {name} is not set; as in AgentV, {place[-1]!r} then has its default value"
            translation.drop(place, message)


def _drop_unknown(translation: Translation, at: JsonPath, provider: str, providers: Registry[ProviderSpec]) -> None:
    """Remove keys that are not settings of the provider after translation, with a warning for each."""
    names = TargetModel.names().combined_with(settings_names(provider, providers))
    for key in [key for key in translation.entries(at) if names.of(key) is None]:
        if key in _LOG_KEYS:
            translation.ignore(at, key)
            continue
        near = nearest(key, names.spellings)
        hint = f"did you mean {near!r}?" if near else None
        translation.drop((*at, key), f"{key!r} is not a setting of a {provider!r} target, and has no effect", hint)
