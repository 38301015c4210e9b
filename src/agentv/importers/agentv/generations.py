"""The generations of AgentV's eval files, and its targets files, recognised by their keys."""

from collections.abc import Iterable, Iterator, Mapping
from enum import IntEnum

from agentv.loading.files.kinds import PROMPTFOO_KEYS, PROMPTFOO_NAME
from agentv.loading.models.eval_files import SuiteModel
from agentv.loading.models.file_model import Names, names_of
from agentv.loading.models.targets_files import TargetModel
from agentv.loading.suites.cases import is_case
from agentv.registry import ProviderSpec, Registry
from agentv.templating.environment import is_reference
from agentv.types.errors import PluginError, UnknownNameError
from agentv.types.json_value import JsonObject, JsonValue

DIALECT_KEY = "dialect"
OWN_DIALECT = "agentv"
"""The value of `dialect` for a file whose keys are not translated."""


class Generation(IntEnum):
    """A generation of AgentV's eval files. FIRST is that of AgentV 1.5 and 1.6, whose keys mean the same as ours."""

    OURS = 0
    FIRST = 1
    SECOND = 2
    FOURTH = 4

    @property
    def title(self) -> str:
        """The name in messages; "" for our own files."""
        return f"AgentV {self.value}" if self else ""

    @property
    def is_foreign(self) -> bool:
        """True if the same keys mean something else in this generation than in our files."""
        return self > Generation.FIRST


DIALECTS = {
    OWN_DIALECT: Generation.OURS,
    "agentv-1": Generation.FIRST,
    "agentv-2": Generation.SECOND,
    "agentv-4": Generation.FOURTH,
}
"""The generation by the value of `dialect` at the top of a file, which overrides all other signs."""

CASE_LISTS = ("tests", "eval_cases", "evalcases", "cases")
_FOURTH_KEYS = ("tests", "eval_cases", "assertions", "assert", "evals")
_FOURTH_CASE_KEYS = ("assertions", "assert")
_SECOND_CASE_KEYS = ("input", "expected_output")
_SECOND_TYPES = frozenset({"field_accuracy", "latency", "cost", "token_usage", "execution_metrics"})
_SECOND_ITEM_KEYS = frozenset({"outcome", "expected_outcome", "score_ranges", "required_min_score"})
"""Keys that items of rubrics have only since AgentV 2."""
FIFTH_MESSAGE = "an AgentV 5 file; 1.5 to 4.42 are read"
FIFTH_KEYS = ("extensions", "environment", "evaluate_options")
"""Keys of AgentV 5, which no earlier version had."""
_FIFTH_TYPES = frozenset({"llm-rubric"})


def find_generation(value: JsonValue) -> Generation:
    """Return the generation of the content of an eval file, or of a list of cases."""
    if not isinstance(value, Mapping):
        return generation_of_cases(_objects(value))
    dialect = value.get(DIALECT_KEY)
    if isinstance(dialect, str) and dialect in DIALECTS:
        return DIALECTS[dialect]
    if any(key in value for key in _FOURTH_KEYS):
        return Generation.FOURTH
    if _SECOND_TYPES.intersection(_types(value)):
        return max(Generation.SECOND, generation_of_cases(_cases_in(value)))
    return generation_of_cases(_cases_in(value))


def generation_of_cases(cases: Iterable[JsonObject]) -> Generation:
    """Return the generation that the keys of cases belong to; FIRST unless a key belongs to a later one."""
    found = Generation.FIRST
    for case in cases:
        if isinstance(case.get("criteria"), str) or any(key in case for key in _FOURTH_CASE_KEYS):
            return Generation.FOURTH
        if _SECOND_TYPES.intersection(_types(case)):
            found = Generation.SECOND
        if any(not _SECOND_ITEM_KEYS.isdisjoint(item) for item in _objects(case.get("rubrics"))):
            found = Generation.SECOND
    return found


_TRANSLATED_CASE_KEYS = frozenset({"note", "description", "suite", "reference_answer"})
"""Keys of cases of AgentV 1.5 that agentv does not have."""
_TRANSLATED_CALL_KEYS = frozenset({"args", "args_match", "argsMatch", "output"})
"""Keys of an expected tool call that mean something else in AgentV 1.5 than here, or that only AgentV has."""


def differs_from_ours(value: JsonValue) -> bool:
    """Return True if a file of AgentV 1.5 or 1.6 may have a key or type that agentv does not have."""
    if not isinstance(value, Mapping):
        return any(_case_differs(case) for case in _objects(value))
    schema = value.get("$schema")
    if isinstance(schema, str) and not schema.startswith("agentv-"):
        return True
    return any(map(_case_differs, (value, *_cases_in(value))))


def _case_differs(case: JsonObject) -> bool:
    """Return True if a case, or the top level of a file, may have a key or a type that agentv does not have."""
    if "evalcases" not in case and not _TRANSLATED_CASE_KEYS.isdisjoint(case):
        return True
    execution = case.get("execution")
    if isinstance(execution, Mapping) and "target" in execution and "evalcases" not in case:
        return True
    return any(map(_is_translated, _evaluators(case)))


def _is_translated(evaluator: JsonObject) -> bool:
    kind = evaluator.get("type")
    if kind == "tool_trajectory":
        return any(not _TRANSLATED_CALL_KEYS.isdisjoint(call) for call in _objects(evaluator.get("expected")))
    return kind == "composite" or (isinstance(kind, str) and "-" in kind)


def fifth_key(value: JsonValue) -> str | None:
    """Return the first key or evaluator type of AgentV 5 in an eval file's content; None for an earlier version."""
    if not isinstance(value, Mapping) or value.get(DIALECT_KEY) in DIALECTS:
        return None
    keys = (*FIFTH_KEYS, "prompts") if "tests" in value else FIFTH_KEYS
    key = next((key for key in keys if key in value), None)
    if key is not None:
        return key
    types = (kind for holder in (value, *_cases_in(value)) for kind in _types(holder))
    return next((kind for kind in types if kind in _FIFTH_TYPES), None)


_KEYS_OF_OTHERS_TOO = frozenset({"$schema", "description", "prompts", "tags", "targets", "vars"})
"""Keys of our eval files that configurations of promptfoo may have as well."""
_AGENTV_ONLY_SUITE_KEYS = frozenset({"eval_cases", "name", "environment", "evaluate_options"})
"""Keys that files of AgentV may have at the top, and neither ours nor promptfoo's have."""
_PROVIDERS = "providers"


def is_agentv_suite(value: JsonObject) -> bool:
    """Return True for an eval file of ours or of AgentV; it may have `prompts` and `tests`, as promptfoo's do."""
    schema = value.get("$schema")
    if isinstance(schema, str) and schema.startswith("agentv-"):
        return True
    names = SuiteModel.names()
    if any(key in _AGENTV_ONLY_SUITE_KEYS or names.of(key) not in (None, *_KEYS_OF_OTHERS_TOO) for key in value):
        return True
    cases = list(_cases_in(value))
    if any(isinstance(item, str) for case in cases for item in _as_list(case.get("assert"))):
        return True
    is_others = any(key in value for key in (_PROVIDERS, *PROMPTFOO_KEYS))
    return not is_others and any("id" in case for case in cases)


def promptfoo_sign(name: str, value: JsonValue) -> str | None:
    """Return the top-level key by which the file `name` is a promptfoo configuration; None if it is none.

    "" stands for the file's name. `dialect` says that a file is ours or AgentV's, whatever its name and keys are.
    """
    if not isinstance(value, Mapping) or value.get(DIALECT_KEY) in DIALECTS:
        return None
    if name.startswith(PROMPTFOO_NAME):
        return ""
    if is_agentv_suite(value):
        return None
    key = next((key for key in PROMPTFOO_KEYS if key in value), None)
    is_named_as_suite = name.endswith((".eval.yaml", ".eval.yml"))
    return _PROVIDERS if key is None and {_PROVIDERS, "prompts"} <= value.keys() and not is_named_as_suite else key


def generation_of_lines(lines: Iterable[JsonValue]) -> Generation:
    """Return the generation of a dataset's first lines; FIRST unless a case has a key of a later one.

    A line is a case if it has a list of messages or a key that plain rows do not have.
    """
    found = Generation.FIRST
    for line in lines:
        if not isinstance(line, Mapping):
            continue
        if any(key in line for key in _FOURTH_CASE_KEYS):
            return Generation.FOURTH
        has_messages = any(isinstance(line.get(key), list) for key in _SECOND_CASE_KEYS)
        if has_messages or is_case(line):
            found = max(found, generation_of_cases([line]))
    return found


def has_agentv_words(lines: Iterable[JsonValue]) -> bool:
    """Return True if a line has a key with which AgentV 2 and our own files name the question or the answer."""
    return any(key in line for line in _objects(list(lines)) for key in _SECOND_CASE_KEYS)


def _cases_in(value: JsonObject) -> Iterator[JsonObject]:
    for key in CASE_LISTS:
        yield from _objects(value.get(key))


def _as_list(value: JsonValue) -> Iterable[JsonValue]:
    return value if isinstance(value, list | tuple) else ()


def _objects(value: JsonValue) -> Iterator[JsonObject]:
    return (item for item in _as_list(value) if isinstance(item, Mapping))


def _evaluators(holder: JsonObject) -> Iterator[JsonObject]:
    """Yield the evaluators of a suite or a case that are objects."""
    execution = holder.get("execution")
    for owner in (holder, execution if isinstance(execution, Mapping) else {}):
        for key in ("evaluators", "assertions", "assert"):
            yield from _objects(owner.get(key))


def _types(holder: JsonObject) -> Iterator[str]:
    """Yield the types of the evaluators of a suite or a case."""
    kinds = (evaluator.get("type") for evaluator in _evaluators(holder))
    return (kind for kind in kinds if isinstance(kind, str))


EARLIER_TARGETS_SCHEMAS = ("agentv-targets-v2", "agentv-targets-v2.1")
_CODING_AGENTS = ("codex", "claude", "copilot", "pi")
REFUSED_PROVIDERS = {
    "transcript": "judge the recorded messages with `agentv score`, or use provider replay with `file`",
    "bedrock": "use provider http, or openai with the base_url of a gateway",
    "vertex": "use provider gemini with `project` and `location`",
    "agentapi": "use provider http",
}
"""Providers of AgentV that are refused, each with advice."""
TRANSLATED_PROVIDERS = frozenset(
    {"claude-cli", "pi-cli", "openrouter", "cc-mirror", "agentv", "copilot-log"}
    | {"copilot-sdk", "copilot_sdk", "claude-sdk"}
)
"""Providers that only AgentV has, and that become other providers (agentv_targets.py)."""
_AGENTV_ONLY_KEYS = frozenset(
    {"grader_target", "api_format", "subprovider", "byok", "fixtures", "source_target"}
    | {"stream_log", "subagent_mode_allowed", "max_budget_usd", "model_reasoning_effort", "github_token"}
    | {"log_directory", "log_output_format", "cli_verbose", "keep_output_files", "session_dir", "session_id"}
)


def is_agentv_targets(raw: JsonValue, providers: Registry[ProviderSpec]) -> bool:
    """Return True if the content of a targets file must be translated."""
    if not isinstance(raw, Mapping) or raw.get(DIALECT_KEY) == OWN_DIALECT:
        return False
    is_foreign = DIALECT_KEY in raw or raw.get("$schema") in EARLIER_TARGETS_SCHEMAS
    if is_foreign or ("providers" in raw and "targets" not in raw):
        return True
    return any(_is_agentv_target(target, providers) for target in _objects(raw.get("targets")))


def _is_agentv_target(target: Mapping[str, JsonValue], providers: Registry[ProviderSpec]) -> bool:
    """Return True for a target with a key or provider of AgentV, `use_target`, or a reference as provider."""
    if not target.keys().isdisjoint(_AGENTV_ONLY_KEYS):
        return True
    provider = target.get("provider")
    if not isinstance(provider, str):
        return False
    if "use_target" in target or is_reference(provider):
        return True
    name = canonical_provider(provider, providers) or provider.lower()
    check = target.get("healthcheck")
    return (
        name in REFUSED_PROVIDERS
        or name in TRANSLATED_PROVIDERS
        or ("command" in target and settings_names(name, providers).of("command") is None)
        or (isinstance(check, Mapping) and ("command" in check or "type" not in check))
        or (name == "azure" and "version" in target)
        or (name == "pi" and isinstance(target.get("tools"), str))
        or (name == "openai" and "endpoint" in target)
        or (name in _CODING_AGENTS and not target.keys().isdisjoint(("base_url", "workspace_template")))
        or (name == "codex" and "model" in target)
    )


def canonical_provider(name: str, providers: Registry[ProviderSpec]) -> str | None:
    """Return our name of a provider; None if only AgentV has it, or it is unknown."""
    if name.lower() in (*REFUSED_PROVIDERS, *TRANSLATED_PROVIDERS):  # a plug-in of that name takes precedence
        return name if name in providers.specs else providers.aliases.get(name)
    try:
        return providers.canonical(name)
    except PluginError:  # reported when the target is checked
        return None


def settings_names(provider: str, providers: Registry[ProviderSpec]) -> Names:
    """Return the names of a provider's settings; those of all targets if it is unknown or cannot be imported."""
    try:
        return names_of(providers.get(provider).load_settings())
    except (PluginError, UnknownNameError):  # reported when the target is checked
        return TargetModel.names()
