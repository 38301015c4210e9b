"""Services with OpenAI's API under a name of their own."""

OPENAI_SERVICES = {
    "openrouter": ("https://openrouter.ai/api/v1", "OPENROUTER_API_KEY"),
    "groq": ("https://api.groq.com/openai/v1", "GROQ_API_KEY"),
    "togetherai": ("https://api.together.xyz/v1", "TOGETHER_API_KEY"),
    "together": ("https://api.together.xyz/v1", "TOGETHER_API_KEY"),
    "mistral": ("https://api.mistral.ai/v1", "MISTRAL_API_KEY"),
    "deepseek": ("https://api.deepseek.com/v1", "DEEPSEEK_API_KEY"),
    "xai": ("https://api.x.ai/v1", "XAI_API_KEY"),
    "perplexity": ("https://api.perplexity.ai", "PERPLEXITY_API_KEY"),
    "fireworks": ("https://api.fireworks.ai/inference/v1", "FIREWORKS_API_KEY"),
    "cerebras": ("https://api.cerebras.ai/v1", "CEREBRAS_API_KEY"),
    "litellm": ("http://localhost:4000", "LITELLM_API_KEY"),
    "ollama": ("http://localhost:11434/v1", None),
    "localai": ("http://localhost:8080/v1", None),
    "vllm": ("http://localhost:8000/v1", None),
    "llama": ("http://localhost:8080/v1", None),
}
"""Services with OpenAI's API: their address and the variable of their key."""


def service_advice(name: str) -> str | None:
    """Return how a target reaches the service that a provider names; None for a name that is no service."""
    if name not in OPENAI_SERVICES:
        return None
    address, key = OPENAI_SERVICES[name]
    return f"{name} has OpenAI's API: write provider: openai, base_url: {address}" + (
        f", api_key: ${{{{ {key} }}}}" if key else ""
    )
