"""Every model API that a provider can call, as a target for the fake model server or another one."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tests.support.asking import make_target

from agentv.providers.apis.anthropic import AnthropicSettings
from agentv.providers.apis.azure import AzureSettings
from agentv.providers.apis.gemini import GeminiSettings
from agentv.providers.apis.openai import OpenAISettings
from agentv.types.targets import ResolvedTarget

KEY = "sk-canary-0123456789"
TOKEN = {"Authorization": f"Bearer {KEY}"}


@dataclass(frozen=True)
class ModelApi:
    """A provider with one of its APIs: `settings(url, model)` for the server at `url`."""

    provider: str
    settings: Callable[..., object]

    def target(self, url: str, model: str = "m", **settings: Any) -> ResolvedTarget:
        return make_target(self.provider, self.settings(url, model, **settings))


def azure(url: str, model: str, **settings: Any) -> AzureSettings:
    return AzureSettings(deployment=model, endpoint=url, api_key=KEY, **settings)


def openai(url: str, model: str, **settings: Any) -> OpenAISettings:
    return OpenAISettings(model=model, base_url=f"{url}/v1", api_key=KEY, **settings)


def anthropic(url: str, model: str, **settings: Any) -> AnthropicSettings:
    return AnthropicSettings(model=model, base_url=url, api_key=KEY, **settings)


def gemini(url: str, model: str, **settings: Any) -> GeminiSettings:
    return GeminiSettings(model=model, base_url=url, api_key=KEY, **settings)


def vertex(url: str, model: str, **settings: Any) -> GeminiSettings:
    return GeminiSettings(model=model, base_url=url, project="p-1", extra_headers=TOKEN, **settings)


MODEL_APIS: Mapping[str, ModelApi] = {
    "azure": ModelApi("azure", azure),
    "openai-chat": ModelApi("openai", openai),
    "openai-responses": ModelApi("openai", lambda url, model, **rest: openai(url, model, api="responses", **rest)),
    "anthropic": ModelApi("anthropic", anthropic),
    "gemini": ModelApi("gemini", gemini),
    "vertex": ModelApi("gemini", vertex),
}
