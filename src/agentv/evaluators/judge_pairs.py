"""Two answers side by side: what a judge is shown of them, asked, and how its reply is read.

The judge must not learn which of the two is the candidate: the answers are called A and B, and nothing else in the
prompt tells what either of them says.
"""

from collections.abc import Callable, Iterable, Iterator

from msgspec import Struct

from agentv.evaluators.judge_prompts import TEXT, fence, fence_rule, strict_object
from agentv.evaluators.judge_values import JudgedText
from agentv.scoring.pairs import PairReply, candidate_value, parse_pair
from agentv.templating.variables import template_warnings
from agentv.types.evaluation import EvaluationContext, EvaluationResult, EvaluationScore
from agentv.types.json_value import JsonObject

PAIR_ANSWERS = ("answer_a", "answer_b")
PAIR_VARIABLES = (
    "question",
    "expected_outcome",
    *PAIR_ANSWERS,
    "input_messages",
    "guidelines",
    "criterion_name",
    "criterion_description",
    "criterion_scale",
)
"""Every name a pairwise prompt may use, beside `context.PATH`: none tells who said what."""

SCHEMA = strict_object({"nonce": TEXT, "reasoning": TEXT, "better": {"type": "string", "enum": ["A", "B", "tie"]}})


def pair_warnings(template: str) -> tuple[str, ...]:
    """Say what is odd about a prompt of somebody's own."""
    return template_warnings(template, known=PAIR_VARIABLES, needed=PAIR_ANSWERS)


class PairText(Struct, frozen=True):
    """Two answers as a judge is shown them, with what else is known."""

    judged: JudgedText
    answer_a: str
    answer_b: str

    @property
    def context(self) -> EvaluationContext:
        """The candidate's context."""
        return self.judged.context

    def shown(self) -> Iterator[str]:
        """Yield the texts in which a judge may have met an object that is not its own verdict."""
        yield self.answer_a
        yield self.answer_b
        yield from self.judged.shown()

    def fenced(self, nonce: str) -> Callable[[str], str | None]:
        """Return what fills a prompt; a name that would tell who is who has no value."""
        other = self.judged.fenced(nonce)
        answers = {"answer_a": self.answer_a, "answer_b": self.answer_b}

        def value_of(name: str) -> str | None:
            if name in answers:
                return fence(answers[name], name=name, nonce=nonce)
            return other(name) if name in PAIR_VARIABLES or name.startswith("context.") else None

        return value_of


class PairMode(Struct, frozen=True):
    """Which of two answers is better by `goal`. `swapped` says that the candidate is B."""

    goal: str
    swapped: bool = False

    @property
    def instructions(self) -> str:
        """The opening of the system prompt."""
        return (
            "You compare two answers to the same question, A and B. "
            f"{self.goal} Neither the order in which they stand nor their length says anything about them."
        )

    @property
    def section(self) -> str:
        """Nothing follows the user prompt."""
        return ""

    @property
    def schema(self) -> JsonObject:
        """The reply as a JSON Schema."""
        return SCHEMA

    def contract(self, nonce: str) -> str:
        """Return the reply's format in words."""
        return f"""\
Reply with a single JSON object and nothing else. Its keys:
- "nonce": the text "{nonce}", copied exactly
- "reasoning": one or two sentences that compare the answers
- "better": "A", "B", or "tie" when neither is better

{fence_rule(nonce)}"""

    def parse(self, reply: str, *, nonce: str, shown: Iterable[str]) -> PairReply | None:
        """Return the preference in a reply."""
        return parse_pair(reply, nonce=nonce, shown=shown)

    def scored(self, opinions: tuple[PairReply, ...]) -> EvaluationScore:
        """Return what one preference means for the candidate."""
        return EvaluationScore(score=candidate_value(opinions[0].better, swapped=self.swapped))

    def unscored(self, message: str) -> tuple[EvaluationResult, ...]:  # noqa: ARG002 - there is one criterion only
        """Return nothing: the evaluator's own failure says it all."""
        return ()
