"""Who makes an evaluator's vectors, as planning sees it: what it costs, and whether it can be used."""

from agentv.pipeline.judges import embedding_model
from agentv.pipeline.targets import KnownTargets
from agentv.types.errors import ConfigError


def embeds_for_money(settings: object, known: KnownTargets) -> bool:
    """Whether an evaluator's vectors may cost money; a model that nobody knows may."""
    model = embedding_model(settings)
    if model is None:
        return False
    try:
        provider = known.embedding_config(model).provider
    except ConfigError:
        return True
    return known.specs.providers.get(provider).cost == "paid"


def check_embedder(settings: object, known: KnownTargets) -> None:
    """Raise AgentvError unless who makes an evaluator's vectors is there, complete and installed."""
    model = embedding_model(settings)
    if model is None:
        return
    check = getattr(known.embedding_target(model).settings, "check_embeddings", None)
    if check is not None:
        check()
