"""`anthropic`: a Claude model behind Anthropic's API, or any server that speaks it."""

from typing import cast

from agentv.providers.anthropic_batches import MessageBatches
from agentv.providers.anthropic_messages import AnthropicSettings, MessagesDialogue
from agentv.providers.batched_model import BatchedModelProvider
from agentv.providers.credentials import bearer
from agentv.types.protocols import ProviderTools
from agentv.types.targets import ResolvedTarget


class AnthropicProvider(BatchedModelProvider):
    """Asks Anthropic."""

    kind = "anthropic"

    def __init__(self, target: ResolvedTarget, tools: ProviderTools) -> None:
        settings = cast(AnthropicSettings, target.settings)
        dialogue = MessagesDialogue(settings)
        super().__init__(
            target,
            tools,
            dialogue=dialogue,
            credentials=bearer(settings.api_key),
            batches=MessageBatches(f"{dialogue.url}/batches"),
        )
