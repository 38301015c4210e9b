"""Targets files of AgentV: every key of docs/reference/agentv-targets.md, translated, ignored, warned of or refused."""

from collections.abc import Mapping
from pathlib import Path

import pytest
from msgspec import Struct

from agentv.engine.plugins.loading import load_specs
from agentv.importers.agentv.generations import TRANSLATED_PROVIDERS
from agentv.importers.agentv.targets import PROVIDERS_OF_AGENTV
from agentv.loading.targets.targets import ParsedTargets, open_targets, read_targets, resolve_target
from agentv.types.errors import EvalFileError
from agentv.types.json_value import JsonValue

SPECS = load_specs(())
ENV = {"KEY": "k-123456789", "TARGET": "real", "HOST": "h", "KIND": "mock"}


def read(tmp_path: Path, targets: str, env: Mapping[str, str] = ENV) -> ParsedTargets:
    path = tmp_path / "targets.yaml"
    path.write_text(f"targets:\n{targets}")
    return read_targets(path, SPECS, env=env)


class Row(Struct, frozen=True):
    """A row of the mapping: what a target of AgentV becomes, and the warnings that name what is lost."""

    name: str
    written: str
    provider: str
    settings: Mapping[str, JsonValue]
    warnings: tuple[str, ...] = ()


CLI = "name: t, provider: cli"
ROWS = [
    Row("T1", f"{{{CLI}, command: 'run {{PROMPT}}'}}", "cli", {"command_template": "run {PROMPT}"}),
    Row(
        "T2 command",
        f"{{{CLI}, command: run, healthcheck: {{command: 'true', timeout_seconds: 5}}}}",
        "cli",
        {
            "command_template": "run",
            "healthcheck": {"type": "command", "command_template": "true", "timeout_seconds": 5},
        },
    ),
    Row(
        "T2 url",
        f"{{{CLI}, command: run, healthcheck: {{url: 'http://x/ok'}}}}",
        "cli",
        {"command_template": "run", "healthcheck": {"type": "http", "url": "http://x/ok"}},
    ),
    Row(
        "T1 of 1.5",
        f"{{{CLI}, command_template: run, cli_verbose: true, keep_output_files: true}}",
        "cli",
        {"command_template": "run", "verbose": True, "keep_temp_files": True},
    ),
    Row(
        "T14",
        "{name: t, provider: mock, grader_target: nobody}",
        "mock",
        {"judge": "nobody"},
        ("unknown target 'nobody'",),
    ),
    Row(
        "T5",
        "{name: t, provider: azure, endpoint: e, api_key: '${{ KEY }}', model: m, version: '2024-02-01'}",
        "azure",
        {"endpoint": "e", "api_key": "${{ KEY }}", "model": "m", "api_version": "2024-02-01"},
    ),
    Row(
        "T6, T7, T13 of pi",
        "{name: t, provider: pi-coding-agent, tools: 'read, bash', subprovider: openrouter, log_format: json, "
        "stream_log: raw, base_url: 'http://x'}",
        "pi-coding-agent",
        {"tools": ["read", "bash"], "pi_provider": "openrouter", "env": {"OPENROUTER_BASE_URL": "http://x"}},
    ),
    Row(
        "T7 of codex", "{name: t, provider: codex, log_format: json, stream_log: raw}", "codex", {"log_format": "json"}
    ),
    Row(
        "T8, T15",
        "{name: t, provider: openai, model: m, endpoint: 'http://x/v1', api_format: responses}",
        "openai",
        {"model": "m", "base_url": "http://x/v1", "api": "responses"},
    ),
    Row(
        "T8 of azure",
        "{name: t, provider: azure, endpoint: e, model: m, api_format: responses}",
        "azure",
        {"endpoint": "e", "model": "m"},
        ("AgentV's `api_format` of an azure target",),
    ),
    Row(
        "T9",
        "{name: t, provider: replay, fixtures: f.jsonl, source_target: live, suite: s}",
        "replay",
        {"file": "f.jsonl", "recorded_target": "live", "recorded_suite": "s"},
    ),
    Row(
        "T9 traces",
        "{name: t, provider: replay, execution_traces: f.json, source_target: live}",
        "replay",
        {"execution_traces": "f.json", "recorded_target": "live"},
    ),
    Row(
        "T10",
        "{name: t, provider: codex, args: [--oss], model: gpt-5, model_reasoning_effort: high}",
        "codex",
        {"args": ["--oss", "--model", "gpt-5", "-c", 'model_reasoning_effort="high"']},
    ),
    Row(
        "T13 of copilot",
        "{name: t, provider: copilot-cli, byok: {type: openai, base_url: 'http://x', api_key: '${{ KEY }}'}}",
        "copilot-cli",
        {
            "env": {
                "COPILOT_PROVIDER_TYPE": "openai",
                "COPILOT_PROVIDER_BASE_URL": "http://x",
                "COPILOT_PROVIDER_API_KEY": "${{ KEY }}",
            }
        },
    ),
    Row(
        "T13 of claude and codex",
        "{name: t, provider: claude, base_url: 'http://x'}",
        "claude",
        {"env": {"ANTHROPIC_BASE_URL": "http://x"}},
    ),
    Row("T11 claude-cli", "{name: t, provider: claude-cli, model: m}", "claude", {"model": "m"}),
    Row("T11 pi-cli", "{name: t, provider: pi-cli, model: m}", "pi", {"model": "m"}),
    Row(
        "T11 openrouter",
        "{name: t, provider: openrouter, model: z/m}",
        "openai",
        {"model": "z/m", "base_url": "https://openrouter.ai/api/v1", "api_key": "${{ OPENROUTER_API_KEY }}"},
    ),
    Row(
        "T11 agentv",
        "{name: t, provider: agentv, model: 'anthropic:claude-x', temperature: 0}",
        "anthropic",
        {"model": "claude-x", "temperature": 0, "api_key": "${{ ANTHROPIC_API_KEY }}"},
    ),
    Row("T11 cc-mirror", "{name: t, provider: cc-mirror, variant: zai}", "claude", {"executable": "zai"}),
    Row(
        "T11 copilot-sdk",
        "{name: t, provider: copilot-sdk, cli_url: 'h:1', github_token: '${{ KEY }}'}",
        "copilot",
        {"env": {"COPILOT_GITHUB_TOKEN": "${{ KEY }}"}},
        ("AgentV 4 calls copilot-sdk as a library; here its program 'copilot' is run", "AgentV's `cli_url`"),
    ),
    Row(
        "T11 claude-sdk",
        "{name: t, provider: claude-sdk}",
        "claude",
        {},
        ("AgentV 4 calls claude-sdk as a library; here its program 'claude' is run",),
    ),
    Row(
        "T11 copilot-log",
        "{name: t, provider: copilot-log, session_dir: ./s}",
        "replay",
        {"copilot_log": "./s"},
    ),
    Row("T12", "{name: t, provider: my-agent, command: 'run {PROMPT}'}", "cli", {"command_template": "run {PROMPT}"}),
    Row(
        "fallback_targets",
        "{name: t, provider: mock, grader_target: t, fallback_targets: ['${{ HOST }}']}",
        "mock",
        {"judge": "t", "fallback_targets": ["${{ HOST }}"]},
    ),
    Row(
        "max_budget_usd, subagent_mode_allowed",
        "{name: t, provider: claude, max_budget_usd: 2, subagent_mode_allowed: true}",
        "claude",
        {},
        ("AgentV's `max_budget_usd` for one agent", "AgentV's `subagent_mode_allowed`"),
    ),
    Row(
        "workspace_template",
        "{name: t, provider: claude, workspace_template: ./w}",
        "claude",
        {"workspace": {"template": "./w"}},
    ),
    Row(
        "unset optional settings",
        "{name: t, provider: codex, model: m, cwd: '${{ NOT_SET }}', log_dir: '${{ HOST }}'}",
        "codex",
        {"log_dir": "${{ HOST }}", "args": ["--model", "m"]},
        ("the variable NOT_SET is not set; as in AgentV, 'cwd' then has its default value",),
    ),
    Row("a provider of a variable", "{name: t, provider: '${{ KIND }}', response: x}", "mock", {"response": "x"}),
    Row(
        "unset folder of a healthcheck",
        f"{{{CLI}, command: run, healthcheck: {{command: 'true', cwd: '${{{{ NOT_SET }}}}'}}}}",
        "cli",
        {"command_template": "run", "healthcheck": {"type": "command", "command_template": "true"}},
        ("the variable NOT_SET is not set; as in AgentV, 'cwd' then has its default value",),
    ),
    Row(
        "unknown keys",
        f"{{{CLI}, command: run, comand: x}}",
        "cli",
        {"command_template": "run"},
        ("'comand' is not a setting of a 'cli' target, and has no effect",),
    ),
]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_a_key_of_agentv_becomes_ours_or_is_warned_of(row: Row, tmp_path: Path) -> None:
    parsed = read(tmp_path, f"  - {row.written}\n")

    assert [problem.severity for problem in parsed.problems] == ["warning"] * len(row.warnings)
    for problem, warning in zip(
        sorted(parsed.problems, key=lambda each: each.message), sorted(row.warnings), strict=True
    ):
        assert problem.message.startswith(warning)
        assert problem.line == 2
    assert [(each.provider, dict(each.settings)) for each in parsed.targets] == [(row.provider, row.settings)]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_a_translated_target_resolves(row: Row, tmp_path: Path) -> None:
    env = {**ENV, "OPENROUTER_API_KEY": "o-123456789", "ANTHROPIC_API_KEY": "a-123456789"}

    (config,) = read(tmp_path, f"  - {row.written}\n").targets

    assert resolve_target(config, env=env, specs=SPECS).name == "t"


@pytest.mark.parametrize("provider", ["transcript", "bedrock", "vertex", "Bedrock"])
def test_a_provider_of_agentv_without_a_counterpart_is_refused_by_name(provider: str, tmp_path: Path) -> None:
    (problem,) = read(tmp_path, f"  - {{name: t, provider: {provider}, model: m}}\n").problems

    assert problem.severity == "error"
    assert f"the provider {provider!r} of AgentV 4 is not supported" in problem.message


def test_a_provider_of_a_variable_that_is_not_set_is_an_error_of_that_target(tmp_path: Path) -> None:
    (problem,) = read(tmp_path, "  - {name: t, provider: '${{ NOT_SET }}'}\n").problems

    assert problem.severity == "error"
    assert problem.message == "the variable NOT_SET is not set, and the target needs it for 'provider'"


def test_a_file_of_agentv_5_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "targets.yaml"
    path.write_text("providers:\n  - id: x\n")

    assert [problem.message for problem in read_targets(path, SPECS).problems] == [
        "this is an AgentV 5 file; only files of AgentV 1.5 to 4.42 can be read"
    ]


@pytest.mark.parametrize("schema", ["agentv-targets-v2", "agentv-targets-v2.1", "agentv-targets-v2.2"])
def test_the_schemas_of_agentv_are_accepted(schema: str, tmp_path: Path) -> None:
    path = tmp_path / "targets.yaml"
    path.write_text(f"$schema: {schema}\ntargets:\n  - {{name: t, provider: mock}}\n")

    assert read_targets(path, SPECS).problems == ()


def test_use_target_has_the_settings_of_another_target(tmp_path: Path) -> None:
    parsed = read(
        tmp_path,
        "  - {name: default, use_target: '${{ TARGET }}'}\n"
        "  - {name: real, use_target: last}\n"
        "  - {name: last, provider: mock, response: hi}\n",
    )

    assert parsed.problems == ()
    assert [(each.name, each.provider, each.settings) for each in parsed.targets] == [
        ("default", "mock", {"response": "hi"}),
        ("real", "mock", {"response": "hi"}),
        ("last", "mock", {"response": "hi"}),
    ]
    assert parsed.with_needed(["default"]) == {"default", "real", "last"}


def test_an_unset_variable_of_use_target_is_an_error_of_that_target(tmp_path: Path) -> None:
    targets = "  - {name: default, use_target: '${{ NOT_SET }}'}\n  - {name: other, provider: mock}\n"

    parsed = read(tmp_path, targets)

    (problem,) = parsed.problems
    assert problem.message == "the variable NOT_SET is not set, and target 'default' needs it for 'use_target'"
    assert [each.severity for each in parsed.problems_for({"default"})] == ["error"]
    assert [each.severity for each in parsed.problems_for({"other"})] == ["warning"]


def test_a_long_chain_of_use_target_is_refused(tmp_path: Path) -> None:
    chain = "".join(f"  - {{name: t{n}, use_target: t{n + 1}}}\n" for n in range(9))

    assert read(tmp_path, f"{chain}  - {{name: t9, provider: mock}}\n").problems == ()
    circle = read(tmp_path, f"{chain}  - {{name: t9, use_target: t0}}\n")
    assert {problem.message for problem in circle.problems} == {"`use_target` leads through more than 10 targets"}


def test_use_target_needs_a_known_name(tmp_path: Path) -> None:
    (problem,) = read(tmp_path, "  - {name: a, use_target: bb}\n  - {name: b, provider: mock}\n").problems

    assert (problem.message, problem.suggestion) == ("unknown target 'bb'", "b")


def test_problems_after_a_translation_have_the_positions_of_the_file(tmp_path: Path) -> None:
    head = "  - name: t\n    provider: cli\n"

    (template,) = read(tmp_path, f"{head}    command: run {{PROMPT}} {{WRONG}}\n").problems
    (check,) = read(tmp_path, f"{head}    command: run\n    healthcheck:\n      command: 7\n").problems

    assert (template.json_path, template.line, template.column) == ("$.targets[0].command_template", 4, 14)
    assert (check.json_path, check.line, check.column) == ("$.targets[0].healthcheck.command_template", 6, 16)


def test_a_translated_target_that_cannot_be_used_names_its_line(tmp_path: Path) -> None:
    (config,) = read(tmp_path, "  - {name: t, provider: openrouter, model: m}\n").targets

    with pytest.raises(EvalFileError, match="the variable OPENROUTER_API_KEY is not set") as caught:
        resolve_target(config, env={}, specs=SPECS)

    assert caught.value.problems[0].line == 2


def test_our_own_file_stays_strict(tmp_path: Path) -> None:
    (problem,) = read(tmp_path, "  - {name: t, provider: mock, respones: hi}\n").problems

    assert (problem.severity, problem.suggestion) == ("error", "response")


def test_a_file_that_says_it_is_ours_is_not_translated(tmp_path: Path) -> None:
    path = tmp_path / "targets.yaml"
    path.write_text("dialect: agentv\ntargets:\n  - {name: t, provider: cli, command: run}\n")

    messages = [problem.message for problem in read_targets(path, SPECS).problems]

    assert messages == ["the key 'command_template' is missing", "unknown key 'command'"]


def test_a_merge_key_is_translated_in_each_target(tmp_path: Path) -> None:
    written = "  - &base {name: a, provider: cli, command: run}\n  - {<<: *base, name: b, grader_target: a}\n"

    parsed = read(tmp_path, written)

    assert parsed.problems == ()
    assert [each.settings["command_template"] for each in parsed.targets] == ["run", "run"]


def test_the_original_document_is_not_changed(tmp_path: Path) -> None:
    path = tmp_path / "targets.yaml"
    path.write_text("targets:\n  - {name: a, provider: cli, command: run}\n")
    before = path.read_bytes()

    open_targets(path, SPECS, {})

    assert path.read_bytes() == before


def test_every_provider_that_only_agentv_has_is_recognised() -> None:
    assert PROVIDERS_OF_AGENTV.keys() == TRANSLATED_PROVIDERS
