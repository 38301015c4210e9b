"""Who answers: one file per provider, and the registry that names them without importing one."""

from agentv.registry import Registry, Spec, make_registry

__all__ = ["PROVIDERS"]

PROVIDERS: Registry = make_registry(
    "provider",
    [
        Spec(
            name="azure",
            aliases=("azure-openai",),
            summary="a deployment of a chat model on Azure OpenAI",
            settings="agentv.providers.azure_settings:AzureSettings",
            factory="agentv.providers.azure:AzureProvider",
            cost="paid",
            is_model_api=True,
            can_judge=True,
        ),
        Spec(
            name="openai",
            summary="a model behind the OpenAI API, or any server that speaks it",
            settings="agentv.providers.openai_settings:OpenAISettings",
            factory="agentv.providers.openai:OpenAIProvider",
            cost="paid",
            is_model_api=True,
            can_judge=True,
        ),
        Spec(
            name="anthropic",
            summary="a Claude model behind Anthropic's API, or any server that speaks it",
            settings="agentv.providers.anthropic_messages:AnthropicSettings",
            factory="agentv.providers.anthropic:AnthropicProvider",
            cost="paid",
            is_model_api=True,
            can_judge=True,
        ),
        Spec(
            name="gemini",
            aliases=("google", "google-gemini"),
            summary="a model of Google, behind the Gemini API or on Vertex",
            settings="agentv.providers.gemini_content:GeminiSettings",
            factory="agentv.providers.gemini:GeminiProvider",
            cost="paid",
            is_model_api=True,
            can_judge=True,
        ),
        Spec(
            name="cli",
            summary="a command, run once for each case",
            settings="agentv.providers.cli_settings:CliSettings",
            factory="agentv.providers.cli:CliProvider",
            works_in_folder=True,
        ),
        Spec(
            name="http",
            summary="a web service, one request for each case",
            settings="agentv.providers.http_settings:HttpSettings",
            factory="agentv.providers.http_provider:HttpProvider",
        ),
        Spec(
            name="python",
            summary="a Python function, sync or async",
            settings="agentv.providers.python:PythonSettings",
            factory="agentv.providers.python:PythonProvider",
            works_in_folder=True,
            can_judge=True,
        ),
        Spec(
            name="replay",
            summary="answers from a stored run, a results file or a transcript",
            settings="agentv.providers.replay:ReplaySettings",
            factory="agentv.providers.replay:ReplayProvider",
        ),
        Spec(
            name="mock",
            summary="canned answers, for trying things out",
            settings="agentv.providers.mock:MockSettings",
            factory="agentv.providers.mock:MockProvider",
            can_judge=True,
        ),
    ],
)
