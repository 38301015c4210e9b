"""`anthropic`: a Claude model behind Anthropic's API, or any server that speaks it."""

from typing import cast

from agentv.providers.anthropic_messages import AnthropicSettings, MessagesDialogue
from agentv.providers.credentials import bearer
from agentv.providers.model_provider import ModelProvider
from agentv.types.protocols import ProviderTools
from agentv.types.targets import ResolvedTarget


class AnthropicProvider(ModelProvider):
    """Asks Anthropic."""

    kind = "anthropic"

    def __init__(self, target: ResolvedTarget, tools: ProviderTools) -> None:
        settings = cast(AnthropicSettings, target.settings)
        super().__init__(target, tools, dialogue=MessagesDialogue(settings), credentials=bearer(settings.api_key))
