"""What was made of an evaluator's config, kept for the next case with the same one."""

from typing import Generic, TypeVar

from agentv.types.cases import EvaluatorConfig

Part = TypeVar("Part")


class KeptByConfig(Generic[Part]):
    """Parts by the config object that they were made of, those used last, at most `limit` of them.

    Configs of a suite stay the same objects from case to case; a stream's come and go.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        # The config stands beside its part: an id alone would be somebody else's once the config is gone.
        self._parts: dict[int, tuple[EvaluatorConfig, Part]] = {}

    def get(self, config: EvaluatorConfig) -> Part | None:
        """Return what is kept of a config, None when nothing is."""
        kept = self._parts.pop(id(config), None)
        if kept is None:
            return None
        self._parts[id(config)] = kept
        return kept[1]

    def keep(self, config: EvaluatorConfig, part: Part) -> None:
        """Keep a part; what was not used for longest goes when there are too many."""
        if len(self._parts) >= self._limit:
            del self._parts[next(iter(self._parts))]
        self._parts[id(config)] = (config, part)
