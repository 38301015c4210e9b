from typing import Any

import pytest

from agentv.engine.plugins.loading import load_specs
from agentv.loading.targets.targets import resolve_target
from agentv.providers.apis.azure import AzureSettings
from agentv.types.errors import EvalFileError
from agentv.types.targets import TargetConfig


def resolved(**settings: Any) -> AzureSettings:
    config = TargetConfig("t", "azure-openai", {"api_key": "k-0123456789", **settings})
    made = resolve_target(config, env={}, specs=load_specs()).settings
    assert isinstance(made, AzureSettings)
    return made


@pytest.mark.parametrize(
    "endpoint",
    ["shop", "shop.openai.azure.com", "https://shop.openai.azure.com", "https://shop.openai.azure.com/"],
)
def test_the_resource_may_be_named_or_its_address_given(endpoint: str) -> None:
    assert resolved(endpoint=endpoint, deployment="gpt-4o").chat_url("gpt-4o") == (
        "https://shop.openai.azure.com/openai/deployments/gpt-4o/chat/completions?api-version=2024-10-01-preview"
    )


@pytest.mark.parametrize("endpoint", ["endpoint", "resource", "resourceName", "resource_name"])
@pytest.mark.parametrize("deployment", ["deployment", "deploymentName", "deployment_name", "model"])
def test_both_have_their_other_names(endpoint: str, deployment: str) -> None:
    settings = resolved(**{endpoint: "shop", deployment: "gpt-4o"})

    assert (settings.endpoint, settings.deployment) == ("shop", "gpt-4o")


def test_the_batch_endpoint_belongs_to_the_resource_even_behind_a_gateway() -> None:
    gateway = AzureSettings(deployment="d", base_url="https://gate.example/azure/deployments/d/")

    assert gateway.chat_url("d").startswith("https://gate.example/azure/deployments/d/chat/completions?")
    assert gateway.openai_url == "https://gate.example/azure"


@pytest.mark.parametrize(
    ("version", "key"),
    [
        ("2024-06-01", "max_tokens"),
        ("2024-08-01-preview", "max_tokens"),
        ("2024-10-01-preview", "max_completion_tokens"),
        ("2024-10-21", "max_completion_tokens"),
        ("preview", "max_completion_tokens"),
    ],
)
def test_the_limit_is_called_as_the_version_has_it(version: str, key: str) -> None:
    assert AzureSettings(deployment="d", endpoint="r", api_version=version).limit_key == key


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "endpoint .the resource's name or URL. or base_url"),
        ({"endpoint": "r", "base_url": "https://r"}, r"endpoint \(the resource's name or URL\) or base_url"),
        ({"base_url": "gate.example"}, "base_url must start with http:// or https://"),
        (
            {"endpoint": "https://r.openai.azure.com/openai/deployments/d"},
            "endpoint must be the URL of the resource only",
        ),
        (
            {"endpoint": "https://r.openai.azure.com?api-version=1"},
            "endpoint must be the URL of the resource only",
        ),
    ],
)
def test_an_address_that_cannot_be_is_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(EvalFileError, match=message):
        resolved(deployment="d", **settings)
