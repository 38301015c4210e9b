"""promptfoo configurations as eval files: every key is carried over or listed, and what is made loads."""

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from tests.importers import promptfoo_schema as schema

from agentv.engine.plugins.loading import load_specs
from agentv.importers.located import Converted
from agentv.importers.promptfoo.configurations import convert_promptfoo
from agentv.loading.suites.suites import load_suite
from agentv.reports.text.yaml_text import yaml_mapping
from agentv.types.cases import EvalCase, EvalSuite, EvaluatorConfig
from agentv.types.errors import ConfigError, EvalFileError


def convert(folder: Path, config: dict[str, Any]) -> Converted:
    path = folder / "promptfooconfig.yaml"
    path.write_text(json.dumps(config, indent=1))
    return convert_promptfoo(path, folder / "suite.yaml")


def loaded(folder: Path, made: Converted) -> EvalSuite:
    (folder / "suite.yaml").write_text(yaml_mapping(made.suite))
    for name, text in made.code.items():
        (folder / name).write_text(text)
    return load_suite(folder / "suite.yaml", specs=load_specs())


def cases_of(folder: Path, made: Converted) -> list[EvalCase]:
    return [case for case in loaded(folder, made).cases if isinstance(case, EvalCase)]


def configs(case: EvalCase) -> list[EvaluatorConfig]:
    return [item for item in case.evaluators or () if isinstance(item, EvaluatorConfig)]


def lost(made: Converted) -> dict[str, str]:
    return {problem.json_path: problem.message for problem in made.losses}


def evaluator(made: Converted) -> dict[str, Any]:
    only: Any = made.suite
    return dict(only["evaluators"][0])


def only_case(made: Converted) -> dict[str, Any]:
    cases: Any = made.suite["evalcases"]
    (case,) = cases
    return dict(case)


def one(assertion: dict[str, Any]) -> dict[str, Any]:
    values = {"country": "France", "context": "Facts."}
    return {**schema.BASE, "tests": [{"vars": values, "assert": [assertion]}]}


def places() -> list[tuple[str, dict[str, Any], dict[str, Any], str]]:
    """Return for each key: its name, a configuration without it, one with it, and the path where a loss stands."""
    rows: list[tuple[str, dict[str, Any], dict[str, Any], str]] = []

    def add(kind: str, base: dict[str, Any], path: list[Any], examples: dict[str, Any]) -> None:
        for key, value in examples.items():
            config = deepcopy(base)
            inner: Any = config
            for step in path:
                inner = inner[step]
            inner[key] = value
            shown = "$" + "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in (*path, key))
            rows.append((f"{kind} {key}", base, config, shown))

    base = schema.BASE
    judged = {**base, "tests": [{"vars": {"country": ["France"]}, "assert": [{"type": "llm-rubric", "value": "good"}]}],
              "defaultTest": {"assert": [{"type": "cost", "threshold": 1}]}}  # fmt: skip
    model = {**base, "providers": [{"id": "openai:gpt-4o", "config": {}}]}
    several = {"type": "assert-set", "assert": [{"type": "contains", "value": "a"}, {"type": "contains", "value": "b"}]}
    add("top", base, [], schema.TOP)
    add("evaluateOptions", {**base, "evaluateOptions": {}}, ["evaluateOptions"], schema.EVALUATE_OPTIONS)
    add("commandLineOptions", {**base, "commandLineOptions": {}}, ["commandLineOptions"], schema.COMMAND_LINE)
    add("test", base, ["tests", 0], schema.TEST)
    add("defaultTest", {**base, "defaultTest": {}, "tests": [{}]}, ["defaultTest"], schema.TEST)
    for test in judged["tests"]:
        test["options"] = {}
    add("options", judged, ["tests", 0, "options"], schema.OPTIONS)
    add("assertion", one({"type": "similar", "value": "x"}), ["tests", 0, "assert", 0], schema.ASSERTION)
    add("judged assertion", one({"type": "llm-rubric", "value": "x"}), ["tests", 0, "assert", 0], schema.ASSERTION)
    add("assert-set", one(several), ["tests", 0, "assert", 0], schema.ASSERT_SET)
    add("provider", {**base, "providers": [{"id": "openai:gpt-4o"}]}, ["providers", 0], schema.PROVIDER)
    add("config", model, ["providers", 0, "config"], schema.PROVIDER_CONFIG)
    add("prompt", {**base, "prompts": [{"raw": "x", "label": "y"}, "z"]}, ["prompts", 0], schema.PROMPT)
    add("scenario", {**base, "scenarios": [{"config": [{}], "tests": [{}, {}]}]}, ["scenarios", 0], schema.SCENARIO)
    return rows


TABLE = places()


@pytest.mark.parametrize(("base", "config", "at"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE])
def test_a_key_of_the_schema_is_carried_over_or_listed(
    base: dict[str, Any], config: dict[str, Any], at: str, tmp_path: Path
) -> None:
    before, after = convert(tmp_path, base), convert(tmp_path, config)
    is_listed = any(path.startswith(at) for path in lost(after))
    is_carried_over = (before.suite, before.targets, before.code) != (after.suite, after.targets, after.code)
    assert is_listed or is_carried_over or base == config or at in _WITHOUT_MEANING
    assert all(problem.line > 0 for problem in after.losses)
    if "prompts" not in after.suite:
        loaded(tmp_path, after)


_WITHOUT_MEANING = {
    "$.prompts[0].display",  # a label beside the label
    "$.prompts[0].template",  # what `raw` was made of
    "$.prompts[0].id",
    "$.scenarios[0].description",
    "$.tests[0].options.disableVarExpansion",
    "$.commandLineOptions.description",
}
"""Keys that change nothing here because another key of the example already says it."""


@pytest.mark.parametrize("negated", [False, True])
@pytest.mark.parametrize("type_", schema.ASSERTIONS)
def test_an_assertion_becomes_an_evaluator_that_loads_or_is_listed(
    type_: str, tmp_path: Path, *, negated: bool
) -> None:
    written = f"not-{type_}" if negated else type_
    made = convert(tmp_path, one({"type": written, **schema.ASSERTIONS[type_]}))
    (case,) = cases_of(tmp_path, made)
    if case.skip:
        assert f"`{written}`: is not carried over" in case.skip
        assert f"`{written}`: is not carried over" in lost(made)[f"$.tests[0].assert[0].{_key(type_)}"]
    else:
        assert len(case.evaluators or loaded(tmp_path, made).evaluators or ()) == 1
        assert evaluator(made)["name"] == written
    assert case.id == "test-1"


def _key(type_: str) -> str:
    return "value" if "value" in schema.ASSERTIONS[type_] else "type"


@pytest.mark.parametrize("value", [{}, {"value": ""}])
@pytest.mark.parametrize("type_", schema.ASSERTIONS)
def test_an_assertion_without_a_value_is_never_lost(type_: str, value: dict[str, Any], tmp_path: Path) -> None:
    made = convert(tmp_path, one({"type": type_, **value}))
    is_listed = any(path.startswith("$.tests[0].assert[0]") for path in lost(made))
    assert is_listed or evaluator(made)["name"] == type_
    if not is_listed:
        loaded(tmp_path, made)


def test_a_test_with_an_empty_list_of_values_is_listed(tmp_path: Path) -> None:
    made = convert(tmp_path, {**schema.BASE, "tests": [{"vars": {"country": []}}, {"vars": {"country": "France"}}]})
    assert lost(made)["$.tests[0]"] == "its list of values `country` is empty, which makes no case"


def test_at_least_thirty_assertions_have_a_counterpart(tmp_path: Path) -> None:
    made = [convert(tmp_path, one({"type": type_, **more})) for type_, more in schema.ASSERTIONS.items()]
    assert sum("skip" not in only_case(found) for found in made) >= 30


@pytest.mark.parametrize(
    ("assertion", "expected"),
    [
        ({"type": "equals", "value": "a"}, {"type": "equals", "value": "a"}),
        ({"type": "equals", "value": {"a": 1}}, {"type": "is_json", "schema": {"const": {"a": 1}}}),
        ({"type": "icontains", "value": "a"}, {"type": "contains", "value": "a", "case_sensitive": False}),
        ({"type": "contains-any", "value": "a, b"}, {"type": "contains", "value": ["a", "b"], "expect": "any"}),
        ({"type": "not-regex", "value": "a"}, {"type": "regex", "pattern": "a", "expect": "no_match"}),
        ({"type": "not-contains", "value": "a"}, {"type": "contains", "value": "a", "negate": True}),
        ({"type": "is-json", "value": "type: array"}, {"type": "is_json", "schema": {"type": "array"}}),
        ({"type": "word-count", "value": 3}, {"type": "length", "unit": "words", "min": 3, "max": 3}),
        ({"type": "cost", "threshold": 0.1}, {"type": "trace", "max_cost_usd": 0.1}),
        ({"type": "latency", "threshold": 50}, {"type": "trace", "max_duration_ms": 50}),
        ({"type": "llm-rubric", "value": "is kind"}, {"type": "rubric", "rubrics": ["is kind"]}),
        ({"type": "g-eval", "value": ["a", "b"]}, {"type": "rubric", "rubrics": ["a", "b"]}),
        ({"type": "javascript", "value": "output.length < 9"}, {"type": "length", "max": 8}),
        ({"type": "javascript", "value": 'return output.startsWith("a");'}, {"type": "starts_with", "value": "a"}),
        (
            {"type": "javascript", "value": "output.trim().toLowerCase() === 'yes'"},
            {"type": "equals", "value": "yes", "ignore": "case"},
        ),
        (
            {"type": "javascript", "value": "output.toLowerCase().trim().startsWith('yes')"},
            {"type": "starts_with", "value": "yes", "ignore": "case"},
        ),
        (
            {"type": "javascript", "value": "output.toLowerCase().endsWith('yes')"},
            {"type": "ends_with", "value": "yes", "ignore": "case"},
        ),
        ({"type": "contains", "value": "a", "weight": 2, "metric": "m"},
         {"name": "m", "type": "contains", "value": "a", "weight": 2}),
        ({"type": "trajectory:tool-used", "value": ["a", "b"]},
         {"type": "tool_trajectory", "mode": "any_order", "minimums": {"a": 1, "b": 1}}),
        ({"type": "not-trajectory:tool-used", "value": "a"},
         {"type": "tool_trajectory", "mode": "any_order", "forbidden": ["a"]}),
        ({"type": "trajectory:tool-args-match", "value": {"name": "a", "args": {"b": 1}}},
         {"type": "tool_trajectory", "mode": "in_order", "expected": [{"tool": "a", "args": {"b": 1}}]}),
    ],
)  # fmt: skip
def test_an_assertion_keeps_its_meaning(assertion: dict[str, Any], expected: dict[str, Any], tmp_path: Path) -> None:
    made = convert(tmp_path, one(assertion))
    assert evaluator(made) == {"name": assertion["type"], **expected}


def test_every_assertion_of_a_test_must_pass(tmp_path: Path) -> None:
    asserts = [{"type": "contains", "value": text, "weight": weight} for text, weight in (("a", 1), ("b", 0))]
    made = convert(tmp_path, {**schema.BASE, "tests": [{"vars": {"country": "x"}, "assert": asserts}]})
    evaluators: Any = made.suite["evaluators"]
    assert [item.get("required") for item in evaluators] == [True, None]


def test_lists_of_values_make_a_case_for_each_combination(tmp_path: Path) -> None:
    config = {**schema.BASE, "prompts": ["{{ a }} {{ b }}"], "tests": [{"vars": {"a": ["1", "2"], "b": ["3", "4"]}}]}
    cases = cases_of(tmp_path, convert(tmp_path, config))
    assert [case.input_messages[0].content for case in cases] == ["1 3", "1 4", "2 3", "2 4"]


def test_several_prompts_are_written_as_prompts(tmp_path: Path) -> None:
    (tmp_path / "chat.json").write_text('[{"role": "system", "content": "S"}, {"role": "user", "content": "{{ q }}"}]')
    (tmp_path / "two.txt").write_text("first {{ q }}\n---\nsecond {{ q }}\n")
    config = {"prompts": ["file://chat.json", "two.txt", {"raw": "third", "label": "own"}], "providers": ["echo"],
              "tests": [{"vars": {"q": "x"}}]}  # fmt: skip
    made = convert(tmp_path, config)
    assert made.suite["prompts"] == [
        {"id": "chat", "messages": [{"role": "system", "content": "S"}, {"role": "user", "content": "{{ q }}"}]},
        {"id": "two-1", "messages": [{"role": "user", "content": "first {{ q }}"}]},
        {"id": "two-2", "messages": [{"role": "user", "content": "second {{ q }}"}]},
        {"id": "own", "messages": [{"role": "user", "content": "third"}]},
    ]
    assert "input" not in json.dumps(made.suite)


def test_a_table_without_marks_stays_a_dataset(tmp_path: Path) -> None:
    (tmp_path / "q.csv").write_text("country,city\nFrance,Paris\nJapan,Tokyo\n")
    default = {"vars": {"style": "short", "city": "?"}, "assert": [{"type": "contains", "value": "{{ city }}"}]}
    question = "What is the capital of {{ country }}? Be {{ style }}."
    made = convert(tmp_path, {**schema.BASE, "prompts": [question], "tests": "file://q.csv", "defaultTest": default})
    assert made.suite["vars"] == {"style": "short", "city": "?"}
    assert made.suite["evalcases"] == {
        "file": "q.csv",
        "case": {"input": question},
    }
    assert [case.input_messages[0].content for case in cases_of(tmp_path, made)] == [
        "What is the capital of France? Be short.",
        "What is the capital of Japan? Be short.",
    ]
    assert [configs(case)[0].settings["value"] for case in cases_of(tmp_path, made)] == ["Paris", "Tokyo"]


def test_marks_of_a_table_become_assertions_and_options(tmp_path: Path) -> None:
    columns = "country,__expected,__expected2,__prefix,__description,__metadata:region,__metric,__odd"
    row = 'France,"contains-any: Paris,Lyon",not-icontains: London,Please: ,Capital,europe,right,x'
    (tmp_path / "q.csv").write_text(f"{columns}\n{row}\nJapan,Tokyo,,,,,,\n")
    made = convert(tmp_path, {**schema.BASE, "tests": "q.csv"})
    first, second = cases_of(tmp_path, made)
    assert first.input_messages[0].content == "Please: What is the capital of France?"
    assert first.metadata == {"description": "Capital", "region": "europe"}
    assert [(item.name, item.type, item.settings["value"]) for item in configs(first)] == [
        ("right", "contains", ["Paris", "Lyon"]),
        ("right-2", "contains", "London"),
    ]
    assert [(item.type, item.settings["value"]) for item in configs(second)] == [("equals", "Tokyo")]
    assert [(problem.line, problem.message) for problem in made.losses] == [
        (2, "the column '__odd' is not carried over"),
        (3, "the column '__odd' is not carried over"),
    ]


@pytest.mark.parametrize(
    ("provider", "expected"),
    [
        ("openai:gpt-4o", {"provider": "openai", "model": "gpt-4o", "api_key": "${{ OPENAI_API_KEY }}"}),
        ("openai:responses:o3", {"provider": "openai", "model": "o3", "api": "responses",
                                 "api_key": "${{ OPENAI_API_KEY }}"}),
        ("anthropic:messages:claude-x", {"provider": "anthropic", "model": "claude-x",
                                         "api_key": "${{ ANTHROPIC_API_KEY }}"}),
        ("azure:chat:mine", {"provider": "azure", "deployment": "mine", "endpoint": "${{ AZURE_API_BASE_URL }}",
                             "api_key": "${{ AZURE_API_KEY }}"}),
        ("google:gemini-x", {"provider": "gemini", "model": "gemini-x", "api_key": "${{ GOOGLE_API_KEY }}"}),
        ("ollama:chat:llama3", {"provider": "openai", "base_url": "http://localhost:11434/v1", "model": "llama3"}),
        ("openrouter:a/b", {"provider": "openai", "base_url": "https://openrouter.ai/api/v1", "model": "a/b",
                            "api_key": "${{ OPENROUTER_API_KEY }}"}),
        ("exec: python3 a.py", {"provider": "cli", "command_template": "python3 a.py {PROMPT}"}),
        ({"id": "https://x.example/ask", "config": {"body": {"q": "{{prompt}}"}, "transformResponse": "json.a[0].b"}},
         {"provider": "http", "url": "https://x.example/ask", "body": {"q": "{{ question }}"}, "response": "$.a[0].b"}),
        ({"openai:gpt-4o": {"config": {"temperature": 0, "top_p": 1, "apiBaseUrl": "{{ env.HOST }}"}}},
         {"provider": "openai", "model": "gpt-4o", "temperature": 0, "base_url": "${{ HOST }}",
          "api_key": "${{ OPENAI_API_KEY }}", "extra_body": {"top_p": 1}}),
        ({"id": "mcp", "config": {"enabled": True, "timeout": 5000, "server": {
            "name": "s", "command": "node", "args": ["s.js"], "env": {"SHOP_KEY": "{{ env.SHOP_KEY }}"}}}},
         {"provider": "mcp", "command": "node", "args": ["s.js"], "env": {"SHOP_KEY": "${{ SHOP_KEY }}"},
          "timeout_seconds": 5.0}),
        ({"id": "mcp", "config": {"server": {"url": "https://x.example/mcp", "headers": {"X-Team": "a"}}}},
         {"provider": "mcp", "url": "https://x.example/mcp", "headers": {"X-Team": "a"}}),
        ({"id": "a2a:https://x.example/a2a", "config": {
            "auth": {"type": "bearer", "token": "{{ env.AGENT_KEY }}"}, "mode": "stream"}},
         {"provider": "a2a", "url": "https://x.example/a2a", "headers": {"Authorization": "Bearer ${{ AGENT_KEY }}"},
          "streaming": "on"}),
    ],
)  # fmt: skip
def test_a_provider_becomes_a_target(provider: Any, expected: dict[str, Any], tmp_path: Path) -> None:
    made = convert(tmp_path, {**schema.BASE, "providers": [provider]})
    ((target),) = made.targets
    assert {key: value for key, value in target.items() if key != "name"} == expected
    assert made.losses == ()


@pytest.mark.parametrize(
    "provider",
    ["bedrock:x", "file://a.js", "promptfoo:simulated-user", "openai:realtime:x", "file://p.yaml", "browser"],
)
def test_a_provider_without_a_counterpart_is_listed(provider: str, tmp_path: Path) -> None:
    made = convert(tmp_path, {**schema.BASE, "providers": [provider]})
    assert made.targets == ()
    assert "is not carried over" in lost(made)["$.providers[0]"]


def test_a_secret_of_a_provider_is_never_written(tmp_path: Path) -> None:
    provider = {"id": "openai:gpt-4o", "config": {"apiKey": "sk-very-secret-value"}}
    made = convert(tmp_path, {**schema.BASE, "providers": [provider], "env": {"OPENAI_API_KEY": "sk-other-secret"}})
    assert "secret" not in json.dumps([made.suite, made.targets, [loss.message for loss in made.losses]])


def test_what_an_mcp_or_a2a_provider_has_no_place_for_is_listed(tmp_path: Path) -> None:
    mcp = {"id": "mcp", "config": {"server": {"path": "s.js"}, "servers": []}}
    a2a = {"id": "a2a", "config": {"url": "https://x.example", "auth": {"type": "bearer", "token": "plain-secret"}}}
    made = convert(tmp_path, {**schema.BASE, "providers": [mcp, a2a]})
    assert made.targets == ({"name": "a2a", "provider": "a2a", "url": "https://x.example"},)
    places = lost(made)
    assert "needs the command or the url" in places["$.providers[0].config"]
    assert "is not carried over" in places["$.providers[0].config.server.path"]
    assert "is not carried over" in places["$.providers[0].config.servers"]
    assert "is not carried over" in places["$.providers[1].config.auth"]


def test_code_in_texts_is_kept_literally_and_listed(tmp_path: Path) -> None:
    prompt = "{% if a %}x{% endif %} {{ a | dump }} {{ a.b['c'] }} {{ env.HOME }} {# note #}{{ a | sort }}"
    made = convert(tmp_path, {**schema.BASE, "prompts": [prompt], "tests": [{"vars": {"a": {"b": {"c": 1}}}}]})
    (case,) = cases_of(tmp_path, made)
    assert case.skip is not None
    assert case.skip.startswith("lost in conversion: {% if a %} is not carried over: texts have variables, but no code")
    assert "{% raw %}{{ a | sort }}{% endraw %}" in str(only_case(made)["input"])
    assert lost(made)["$.prompts[0]"].startswith("{{ a | sort }}")
    assert len([problem for problem in made.losses if problem.json_path == "$.prompts[0]"]) == 4


def test_references_and_files_are_followed(tmp_path: Path) -> None:
    (tmp_path / "tests.yaml").write_text("- vars: {country: file://name.txt}\n  assert: [{type: nothing}]\n")
    (tmp_path / "name.txt").write_text("Peru\n")
    config = {
        **schema.BASE,
        "tests": ["file://tests.yaml"],
        "templates": {"short": {"type": "latency", "threshold": 9}},
        "defaultTest": {"assert": [{"$ref": "#/templates/short"}]},
    }
    made = convert(tmp_path, config)
    (case,) = cases_of(tmp_path, made)
    assert case.input_messages[0].content == "What is the capital of Peru?"
    assert evaluator(made) == {"name": "latency", "type": "trace", "max_duration_ms": 9}
    (problem,) = made.losses
    assert (problem.path.endswith("tests.yaml"), problem.line) == (True, 2)
    assert problem.message == "`nothing`: is not carried over: is not known; check its spelling"


@pytest.mark.parametrize(
    "change",
    [
        {"prompts": ["file://../secret.txt"]},
        {"tests": "../secret.csv"},
        {"tests": [{"vars": {"country": "file://link.txt"}}]},
        {"tests": [{"vars": "file://../secret.yaml"}]},
        {"defaultTest": "file://../secret.yaml"},
        {"scenarios": ["file://../secret.yaml"]},
        {"tests": [{"assert": [{"type": "equals", "value": "file://../secret.txt"}]}]},
    ],
)
def test_a_file_outside_the_project_is_not_read(change: dict[str, Any], tmp_path: Path) -> None:
    project = tmp_path / "project"
    (project / ".git").mkdir(parents=True)
    for suffix in ("txt", "csv", "yaml"):
        (tmp_path / f"secret.{suffix}").write_text("a: b\n")
    (project / "link.txt").symlink_to(tmp_path / "secret.txt")
    with pytest.raises(ConfigError, match=r"promptfooconfig\.yaml:\d+:\d+  .* is outside the project"):
        convert(project, {**schema.BASE, **change})


def test_a_configuration_that_cannot_be_read_is_one_error(tmp_path: Path) -> None:
    (tmp_path / "promptfooconfig.yaml").write_text("prompts: [a\n")
    with pytest.raises(EvalFileError, match=r"promptfooconfig\.yaml:1:10"):
        convert_promptfoo(tmp_path / "promptfooconfig.yaml", tmp_path / "suite.yaml")
    with pytest.raises(ConfigError, match="does not exist"):
        convert(tmp_path, {**schema.BASE, "tests": [{"vars": {"country": "file://none.txt"}}]})


_KEY_OF_OURS = {"Authorization": "Bearer plain-1"}
SECRETS = [
    {"id": "openai:gpt-4o", "config": {"headers": _KEY_OF_OURS, "passthrough": {"token": "plain-2"}}},
    {"id": "https://x.example/api", "config": {"headers": {"X-Api-Key": "plain-3"}, "body": {"api_key": "plain-4"}}},
    {"id": "mcp", "config": {"server": {"command": "node", "args": ["--token", "plain-5", "sk-plain-6"]}}},
    {"id": "mcp", "config": {"server": {"command": "node", "env": {"API_KEY": "plain-7"}}}},
    {"id": "mcp", "config": {"server": {"url": "https://x.example", "headers": {"Authorization": "plain-8"}}}},
    {"id": "a2a:https://x.example", "config": {"headers": {"X-Api-Key": "plain-9"}}},
    {"id": "file://p.py", "config": {"password": "plain-10"}},
    {"id": "https://me:plain-11@x.example/api?q=1"},
    {"id": "http", "config": {"url": "https://x.example/api?api_key=plain-12"}},
    {"id": "webhook:https://x.example/api?token=plain-13"},
    {"id": "a2a:https://me:plain-14@x.example"},
    {"id": "a2a", "config": {"url": "https://x.example", "agentCardUrl": "https://me:plain-15@x.example"}},
    {"id": "mcp", "config": {"server": {"url": "https://x.example/mcp?key=plain-16"}}},
    {"id": "ollama:chat:m", "config": {"apiBaseUrl": "http://me:plain-17@x.example/v1"}},
]


@pytest.mark.parametrize("provider", SECRETS, ids=lambda provider: str(provider["id"]))
def test_a_secret_in_plain_text_becomes_a_variable(provider: dict[str, Any], tmp_path: Path) -> None:
    made = convert(tmp_path, {**schema.BASE, "providers": [provider]})
    assert "plain-" not in json.dumps(
        [made.suite, made.targets, dict(made.code), [each.message for each in made.losses]]
    )
    assert all(" secret in plain text; it becomes " in each.message for each in made.losses)
    assert len(made.losses) == json.dumps(provider).count("plain-")


def test_a_command_with_a_secret_is_listed(tmp_path: Path) -> None:
    made = convert(tmp_path, {**schema.BASE, "providers": ["exec: ask --key=sk-plain-1"]})
    assert made.targets == ()
    assert "has a secret in plain text; it is not carried over" in str(made.losses)


def test_what_is_no_secret_is_carried_over_as_it_is(tmp_path: Path) -> None:
    headers = {"X-Team": "shop", "Authorization": "Bearer {{ env.SHOP_KEY }}"}
    made = convert(tmp_path, {**schema.BASE, "providers": [{"id": "openai:gpt-4o", "config": {"headers": headers}}]})
    assert made.targets[0]["extra_headers"] == {"X-Team": "shop", "Authorization": "Bearer ${{ SHOP_KEY }}"}
    assert made.losses == ()


def test_an_agent_with_two_urls_keeps_both(tmp_path: Path) -> None:
    config = {"url": "https://a.example/rpc", "agentCardUrl": "https://b.example/card.json"}
    made = convert(tmp_path, {**schema.BASE, "providers": [{"id": "a2a", "config": config}]})
    assert made.targets == (
        {"name": "a2a", "provider": "a2a", "url": config["agentCardUrl"], "endpoint": config["url"]},
    )


def test_settings_of_a_protocol_that_are_not_understood_are_listed(tmp_path: Path) -> None:
    agent = {"id": "a2a:https://x.example", "config": {"mode": "sometimes", "timeout": "30s", "headers": "none"}}
    off = {"id": "mcp", "config": {"enabled": False, "server": {"command": "node"}}}
    made = convert(tmp_path, {**schema.BASE, "providers": [agent, off]})
    assert [target["provider"] for target in made.targets] == ["a2a"]
    places = lost(made)
    for key in ("mode", "timeout", "headers"):
        assert "it is not carried over" in places[f"$.providers[0].config.{key}"]
    assert "is not enabled" in places["$.providers[1].config.enabled"]


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        ("similar:cosine(0.8): x", {"type": "semantic_similarity", "threshold": 0.8}),
        ("not-similar:cosine: x", {"type": "semantic_similarity", "threshold": 0.75, "negate": True}),
        ("trajectory:tool-used: f", {"type": "tool_trajectory", "minimums": {"f": 1}}),
        ("contains: a: b", {"type": "contains", "value": "a: b"}),
        ("nothing:known: f", {"type": "equals", "value": "nothing:known: f"}),
    ],
)
def test_a_cell_may_name_a_type_with_a_colon(cell: str, expected: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(f"q,__expected\nhi,{cell}\n")
    made = convert(tmp_path, {**schema.BASE, "tests": "t.csv", "prompts": ["{{q}}"]})
    found = evaluator(made)
    assert {key: found[key] for key in expected} == expected
    loaded(tmp_path, made)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("q,__expected,__threshold\nhi,contains: x,abc\n", '`threshold` is not a number: "abc"'),
        ("q,__expected\nhi,similar(0.8.1): x\n", '`threshold` is not a number: "0.8.1"'),
        ("q,__expected,__config:__expected:threshold\nhi,similar: x,lots\n", 'is not a number: "lots"'),
        ("q,__expected,__threshold\nhi,contains: x,nan\n", '`threshold` is not a number: "nan"'),
    ],
)
def test_a_cell_that_is_not_a_number_is_listed(table: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(table)
    made = convert(tmp_path, {**schema.BASE, "tests": "t.csv", "prompts": ["{{q}}"]})
    found = [each for each in made.losses if message in each.message]
    assert [(each.path.endswith("t.csv"), each.line) for each in found] == [(True, 2)]
    (case,) = cases_of(tmp_path, made)
    assert case.skip is not None
    assert message in case.skip


@pytest.mark.parametrize(
    ("name", "text", "lines"),
    [
        ("t.jsonl", '{"vars": {"q": "a"}}\n[1, 2]\n"text"\n', [2, 3]),
        ("t.yaml", "- vars: {q: a}\n- just text\n- more text\n", [2, 3]),
        ("t.yaml", "just text\n", [1]),
    ],
)
def test_a_test_that_is_no_object_is_listed(name: str, text: str, lines: list[int], tmp_path: Path) -> None:
    (tmp_path / name).write_text(text)
    made = convert(tmp_path, {**schema.BASE, "tests": f"file://{name}"})
    found = [each for each in made.losses if "a test must be an object, but is" in each.message]
    assert [(each.path.endswith(name), each.line) for each in found] == [(True, line) for line in lines]
    cases = cases_of(tmp_path, made)
    assert [case.skip for case in cases if case.skip] == [f"lost in conversion: {each.message}" for each in found]
    assert len(cases) == (1 if text == "just text\n" else 3)


def test_a_file_of_tests_of_another_kind_is_listed(tmp_path: Path) -> None:
    (tmp_path / "t.xlsx").write_bytes(b"PK")
    made = convert(tmp_path, {**schema.BASE, "tests": "file://t.xlsx"})
    assert lost(made)["$.tests"] == "the tests of t.xlsx are not carried over"
    (case,) = cases_of(tmp_path, made)
    assert case.skip == "lost in conversion: the tests of t.xlsx are not carried over"


def test_values_of_a_wrong_kind_are_listed(tmp_path: Path) -> None:
    asserts = [
        {"type": "contains", "value": "x", "weight": "heavy"},
        {"type": "is-json", "threshold": "lots"},
        {"type": "contains-any", "value": ["a", {"b": 1}]},
    ]
    tests = [
        {"vars": {"country": "a"}, "threshold": "high", "options": {"repeat": "twice"}, "assert": asserts},
        {"vars": 5, "metadata": "text", "assert": [{"type": "contains-all", "value": 7}]},
    ]
    made = convert(
        tmp_path, {**schema.BASE, "tests": tests, "evaluateOptions": {"maxConcurrency": float("nan")}, "scenarios": [5]}
    )
    places = lost(made)
    for at in ("threshold", "options.repeat", "assert[0].weight", "assert[1].threshold"):
        assert places[f"$.tests[0].{at}"].startswith(f"`{at.rpartition('.')[2]}` is not a number: ")
    assert places["$.evaluateOptions.maxConcurrency"].startswith("`maxConcurrency` is not a number: ")
    assert '{"b": 1} is not a text' in places["$.tests[0].assert[2].value"]
    assert places["$.tests[1].vars"] == "`vars` is not an object; it is not carried over"
    assert places["$.tests[1].metadata"] == "`metadata` is not an object; it is not carried over"
    assert "has no text as its value" in places["$.tests[1].assert[0].value"]
    assert "a scenario must be an object" in places["$.scenarios[0]"]


_SCENARIO = """\
prompts: ['{{q}}']
providers: [echo]
scenarios:
  - config:
      - vars: {q: hi}
        assert: [{type: nothing}]
    tests:
      - description: d
        tags: zzz
        vars: {p: file://made.py}
        assert:
          - {type: contains, value: x}
          - {type: other}
"""


def test_a_problem_of_a_test_of_a_scenario_has_its_place(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text(_SCENARIO)
    made = convert_promptfoo(tmp_path / "c.yaml", tmp_path / "suite.yaml")
    assert {each.json_path: each.line for each in made.losses} == {
        "$.scenarios[0].tests[0].tags": 9,
        "$.scenarios[0].tests[0].vars.p": 10,
        "$.scenarios[0].tests[0].assert[0].type": 6,
        "$.scenarios[0].tests[0].assert[2].type": 13,
    }


@pytest.mark.parametrize(
    ("assertion", "settings", "words"),
    [
        (
            {"type": "context-faithfulness", "threshold": 0.8},
            {"type": "faithfulness", "required": 0.8, "sources": "metadata.assertion_context"},
            "becomes faithfulness",
        ),
        (
            {"type": "context-recall", "value": "Paris", "threshold": 0.5},
            {
                "type": "context_recall",
                "required": 0.5,
                "sources": "metadata.assertion_context",
                "reference": "metadata.reference_1",
            },
            "becomes context_recall",
        ),
        (
            {"type": "context-relevance"},
            {"type": "context_precision", "required": 0, "sources": "metadata.assertion_context"},
            "the share of useful passages",
        ),
        (
            {"type": "not-context-relevance", "threshold": 0.25},
            {
                "type": "context_precision",
                "required": 0.75,
                "negate": True,
                "sources": "metadata.assertion_context",
            },
            "the share of useful passages",
        ),
        (
            {"type": "answer-relevance", "threshold": 0.7},
            {"type": "answer_relevance", "required": 0.7},
            "no questions are generated and compared",
        ),
    ],
)
def test_judged_contexts_become_ready_made_judges(
    assertion: dict[str, Any], settings: dict[str, Any], words: str, tmp_path: Path
) -> None:
    made = convert(tmp_path, one(assertion))
    found = evaluator(made)
    assert {key: value for key, value in found.items() if key not in ("name", "target")} == settings
    assert any(words in message for message in lost(made).values())
    (case,) = cases_of(tmp_path, made)
    assert case.pass_score == 0
    if "sources" in settings:
        assert case.metadata["assertion_context"] == "Facts."


def test_a_context_that_is_no_variable_is_named(tmp_path: Path) -> None:
    config = {**schema.BASE, "tests": [{"vars": {"country": "France"}, "assert": [{"type": "context-faithfulness"}]}]}
    made = convert(tmp_path, config)
    assert "sources" not in evaluator(made)
    with_threshold = {**schema.BASE, "tests": [{"vars": {"country": "France"}, "threshold": 0.5, "assert": [
        {"type": "context-recall", "value": "Paris", "threshold": 0.9}
    ]}]}  # fmt: skip
    made = convert(tmp_path, with_threshold)
    assert (evaluator(made)["sources"], "required" in evaluator(made)) == ("prompt", False)
