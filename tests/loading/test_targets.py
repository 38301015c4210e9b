"""Targets: the choice of one, filled references, secrets, and the spellings of retry keys."""

from pathlib import Path

import pytest
from tests.loading.specs import SPECS, MockSettings, ModelSettings

from agentv.loading.targets.choice import choose_target
from agentv.loading.targets.targets import load_targets, resolve_target
from agentv.types.errors import EvalFileError, TargetError
from agentv.types.json_value import JsonValue
from agentv.types.targets import DEFAULT_RETRY_STATUSES, ResolvedTarget, RetryPolicy, TargetConfig


@pytest.fixture(autouse=True)
def _in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def load(text: str) -> tuple[TargetConfig, ...]:
    path = Path("targets.yaml")
    path.write_text(text)
    return load_targets(path, specs=SPECS)


def resolve(provider: str = "mock", env: dict[str, str] | None = None, /, **settings: JsonValue) -> ResolvedTarget:
    return resolve_target(TargetConfig("t", provider, settings), env=env or {}, specs=SPECS)


def refused(config: TargetConfig, **env: str) -> list[str]:
    with pytest.raises(EvalFileError) as caught:
        resolve_target(config, env=env, specs=SPECS)
    return str(caught.value).splitlines()


A, B, DEFAULT = TargetConfig("a", "mock"), TargetConfig("b", "mock"), TargetConfig("default", "mock")


def test_the_named_target_is_chosen_else_default_else_the_only_one() -> None:
    assert choose_target([A, B, DEFAULT], "b") is B
    assert choose_target([A, B, DEFAULT], None) is DEFAULT
    assert choose_target([A], None) is A


def test_a_wrong_name_lists_those_that_exist() -> None:
    with pytest.raises(
        TargetError, match=r"there is no target 'defualt'; known targets: a, default\. Did you mean 'default'\?"
    ):
        choose_target([A, DEFAULT], "defualt")
    with pytest.raises(TargetError, match=r"known targets: none\."):
        choose_target([], "x")


def test_without_a_name_several_targets_are_no_choice() -> None:
    with pytest.raises(TargetError, match=r"no target is chosen.*Known targets: a, b"):
        choose_target([A, B], None)


def test_an_unset_variable_does_not_matter_before_its_target_is_used() -> None:
    used, unused = load(
        "targets:\n  - {name: a, provider: mock}\n  - {name: b, provider: openai, model: '${{ MODEL }}'}\n"
    )
    assert resolve_target(used, env={}, specs=SPECS).name == "a"
    assert refused(unused) == [
        (
            "targets.yaml:3:40  $.targets[1].model  the variable MODEL is not set, and target 'b' needs it for "
            "'model'; set it in the environment or in a .env file"
        )
    ]


def test_all_problems_of_a_target_are_reported_with_positions() -> None:
    text = (
        "targets:\n  - name: a\n    provider: mock\n    workers: ${{ W }}\n    delay_ms: ${{ D }}\n    fail: ${{ F }}\n"
    )
    (config,) = load(text)
    assert refused(config, W="many", F="1") == [
        "targets.yaml:4:14  $.targets[0].workers  'many' is not allowed here; allowed: auto or a whole number",
        (
            "targets.yaml:5:15  $.targets[0].delay_ms  the variable D is not set, and target 'a' needs it for "
            "'delay_ms'; set it in the environment or in a .env file"
        ),
        "targets.yaml:6:11  $.targets[0].fail  must be true or false, but is a string",
    ]


def test_problems_of_a_target_from_python_have_its_name() -> None:
    assert refused(TargetConfig("t", "openai", {"modle": "m", "workers": 0})) == [
        "target 't'  $.workers  must be at least 1",
        "target 't'  $  the key 'model' is missing",
        (
            "target 't'  $.modle  unknown key 'modle'; allowed: model, api_key, base_url, temperature, extra_headers, "
            "system_prompt, name, provider, judge, fallback_targets, unsigned, workers, provider_batching, "
            "batch_size, max_retries, "
            "retry_initial_delay_ms, retry_max_delay_ms, retry_backoff_factor, retry_status_codes, retry_timeouts, "
            "retry, timeout_seconds, requests_per_minute, tokens_per_minute, price, system_prompt, workspace, "
            "resources, node_label; "
            "did you mean 'model'?"
        ),
    ]


def test_a_target_made_in_python_is_ready_without_a_file() -> None:
    target = resolve(response="4")
    assert target.settings == MockSettings(response="4")
    assert (target.provider, target.path, target.line) == ("mock", "", 0)


def test_an_alias_of_a_provider_becomes_its_name() -> None:
    assert resolve("azure-openai", model="m").provider == "azure"


def test_references_stand_anywhere_in_a_text() -> None:
    target = resolve("mock", {"HOST": "h", "PORT": "80"}, response="http://${{ HOST }}:${{PORT}}/${{  HOST  }}")
    assert target.settings == MockSettings(response="http://h:80/h")


def test_a_text_that_is_only_a_reference_may_become_a_number_or_boolean() -> None:
    env = {"DELAY": "1.5", "FAIL": "true", "WORKERS": "3", "TEXT": "12", "SECONDS": "20"}
    target = resolve(
        "mock",
        env,
        delay_ms="${{ DELAY }}",
        fail="${{ FAIL }}",
        workers="${{ WORKERS }}",
        response="${{ TEXT }}",
        retry={"maxDelayMs": "${{ SECONDS }}"},
    )
    assert target.settings == MockSettings(response="12", delay_ms=1.5, fail=True)
    assert target.workers == 3
    assert target.retry.max_delay_s == 0.02


@pytest.mark.parametrize("value", ["three", "", "1.5", "0", "true", "1e999", ".nan"])
def test_a_reference_that_is_not_a_number_is_reported(value: str) -> None:
    (problem,) = refused(TargetConfig("t", "mock", {"workers": "${{ W }}"}), W=value)
    assert problem.startswith(("target 't'  $.workers  must be ", f"target 't'  $.workers  {value!r} is not allowed"))


def test_a_value_is_never_expanded_again() -> None:
    target = resolve("mock", {"A": "${{ B }}", "B": "b"}, response="${{ A }}")
    assert target.settings == MockSettings(response="${{ B }}")


def test_secrets_are_known_and_struck_from_what_is_shown() -> None:
    env = {"API_KEY": "sk-abcdefgh", "HOST": "example.com", "TEAM_TOKEN": "tok-12345678", "PIN_KEY": "1234"}
    target = resolve(
        "openai",
        env,
        model="m",
        apiKey="${{ API_KEY }}",
        endpoint="https://${{ HOST }}/${{ TEAM_TOKEN }}/${{ PIN_KEY }}",
        extra_headers={"Authorization": "Bearer ${{ API_KEY }}", "X-Team": "refunds"},
    )
    assert target.settings == ModelSettings(
        model="m",
        api_key="sk-abcdefgh",
        base_url="https://example.com/tok-12345678/1234",
        extra_headers={"Authorization": "Bearer sk-abcdefgh", "X-Team": "refunds"},
    )
    assert target.public_settings == {
        "model": "m",
        "apiKey": "***",
        "endpoint": "https://example.com/***/***",
        "extra_headers": {"Authorization": "***", "X-Team": "refunds"},
    }
    assert set(target.secrets) == {"sk-abcdefgh", "tok-12345678", "Bearer sk-abcdefgh"}


FULL = RetryPolicy(max_retries=5, initial_delay_s=0.2, max_delay_s=3.0, backoff_factor=1.5, status_codes=(500, 503))


@pytest.mark.parametrize(
    "written",
    [
        {
            "max_retries": 5,
            "retry_initial_delay_ms": 200,
            "retry_max_delay_ms": 3000,
            "retry_backoff_factor": 1.5,
            "retry_status_codes": [500, 503],
        },
        {
            "max_retries": 5,
            "initial_delay_ms": 200,
            "max_delay_ms": 3000,
            "backoff_factor": 1.5,
            "retryable_status_codes": [500, 503],
        },
        {
            "maxRetries": 5,
            "initialDelayMs": 200,
            "maxDelayMs": 3000,
            "backoffFactor": 1.5,
            "retryableStatusCodes": [500, 503],
        },
        {
            "maxRetries": 5,
            "retryInitialDelayMs": 200,
            "retryMaxDelayMs": 3000,
            "retryBackoffFactor": 1.5,
            "retryStatusCodes": [500, 503],
        },
    ],
)
def test_every_spelling_of_the_retry_keys_means_the_same_flat_and_nested(written: dict[str, JsonValue]) -> None:
    assert resolve("mock", None, **written).retry == FULL
    assert resolve(retry=written).retry == FULL


def test_without_retry_keys_the_defaults_hold() -> None:
    assert resolve().retry == RetryPolicy(3, 1.0, 60.0, 2.0, DEFAULT_RETRY_STATUSES)


def test_snake_case_wins_over_camel_case_and_flat_over_nested() -> None:
    assert resolve(max_retries=1, maxRetries=2).retry.max_retries == 1
    assert resolve(maxRetries=2, max_retries=1).retry.max_retries == 1
    assert resolve(retry={"max_retries": 7}, maxRetries=2).retry.max_retries == 2


def test_a_common_key_that_the_provider_knows_too_is_given_to_both() -> None:
    target = resolve("openai", model="m", system_prompt="Be kind.")
    assert target.system_prompt == "Be kind."
    assert isinstance(target.settings, ModelSettings)
    assert target.settings.system_prompt == "Be kind."


def test_relative_paths_of_a_target_start_from_its_file(tmp_path: Path) -> None:
    (target,) = load("targets: [{name: a, provider: mock}]\n")
    assert (target.base_dir, target.path, target.line) == (str(tmp_path.resolve()), "targets.yaml", 1)
