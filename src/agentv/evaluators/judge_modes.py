"""The two things a judge can be asked for: a score in one go (freeform), or a check per requirement (rubric)."""

from collections.abc import Iterable

from msgspec import Struct

from agentv.evaluators.judge_basis import WHOLE, Basis
from agentv.evaluators.judge_prompts import (
    FREEFORM_SCHEMA,
    RUBRIC_INSTRUCTIONS,
    RUBRIC_SCHEMA,
    freeform_contract,
    rubric_contract,
    rubric_section,
)
from agentv.scoring.replies import FreeformReply, RubricReply, parse_freeform, parse_rubric
from agentv.scoring.rubrics import rubric_score
from agentv.scoring.votes import Vote, combine, spread
from agentv.types.cases import RubricItem
from agentv.types.evaluation import EvaluationResult, EvaluationScore
from agentv.types.json_value import JsonObject


class FreeformMode(Struct, frozen=True):
    """One score with hits, misses and a reason. `criterion` names what the score is about, `basis` what tells it."""

    criterion: str
    vote: Vote = "mean"
    basis: Basis = WHOLE

    @property
    def instructions(self) -> str:
        """The opening of the system prompt."""
        return self.basis.instructions

    @property
    def section(self) -> str:
        """Nothing follows the user prompt."""
        return ""

    @property
    def schema(self) -> JsonObject:
        """The reply as a JSON Schema."""
        return FREEFORM_SCHEMA

    def contract(self, nonce: str) -> str:
        """Return the reply's format in words."""
        return freeform_contract(nonce, self.basis)

    def parse(self, reply: str, *, nonce: str, shown: Iterable[str]) -> FreeformReply | None:
        """Return the verdict in a reply."""
        return parse_freeform(reply, nonce=nonce, shown=shown)

    def scored(self, opinions: tuple[FreeformReply, ...]) -> EvaluationScore:
        """Return the opinions' common score, with the texts of the opinion that comes nearest to it."""
        scores = [opinion.score for opinion in opinions]
        score = combine(scores, self.vote)
        nearest = min(opinions, key=lambda opinion: abs(opinion.score - score))
        return EvaluationScore(
            score=score,
            hits=nearest.hits,
            misses=nearest.misses,
            expected_aspect_count=max(1, len(nearest.hits) + len(nearest.misses)),
            reasoning=nearest.reasoning,
            status="unverified" if any(opinion.unverified for opinion in opinions) else "scored",
            results=self._results(score, scores, nearest.reasoning) if len(opinions) > 1 else (),
        )

    def unscored(self, message: str) -> tuple[EvaluationResult, ...]:  # noqa: ARG002 - the evaluator is the one criterion
        """Return nothing: the evaluator's own failure says it all."""
        return ()

    def _results(self, score: float, scores: list[float], reasoning: str | None) -> tuple[EvaluationResult, ...]:
        """Keep how far the opinions were apart beside what they amount to."""
        result = EvaluationResult(
            criterion_name=self.criterion,
            score=score,
            value=score,
            scale="numeric",
            reasoning=reasoning,
            evaluator_type="llm_judge",
            metadata={"spread": spread(scores)},
        )
        return (result,)


class RubricMode(Struct, frozen=True):
    """A check for each of `items`."""

    items: tuple[RubricItem, ...]
    vote: Vote = "mean"

    @property
    def instructions(self) -> str:
        """The opening of the system prompt."""
        return RUBRIC_INSTRUCTIONS

    @property
    def section(self) -> str:
        """The requirements, after the user prompt."""
        return rubric_section(self.items)

    @property
    def schema(self) -> JsonObject:
        """The reply as a JSON Schema."""
        return RUBRIC_SCHEMA

    def contract(self, nonce: str) -> str:
        """Return the reply's format in words."""
        return rubric_contract(nonce)

    def parse(self, reply: str, *, nonce: str, shown: Iterable[str]) -> RubricReply | None:
        """Return the checks in a reply."""
        return parse_rubric(reply, item_ids=[item.id for item in self.items], nonce=nonce, shown=shown)

    def scored(self, opinions: tuple[RubricReply, ...]) -> EvaluationScore:
        """Return the score of the checks."""
        return rubric_score(self.items, opinions, vote=self.vote)

    def unscored(self, message: str) -> tuple[EvaluationResult, ...]:  # noqa: ARG002 - an item that was not asked is none
        """Return nothing: the evaluator's own failure says it all."""
        return ()
