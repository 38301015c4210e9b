"""The reference material that a judge compares an answer with, and the prompt sections and instructions for it.

A prompt mentions nothing that it does not contain: without a reference answer it has no section for one, and the
instructions do not mention one.
"""

import functools
from typing import Protocol

from msgspec import Struct

from agentv.types.criteria.scales import EvaluationCriteria


class Task(Protocol):
    """What a judge is told to do: the opening of its system prompt, and the meanings of the scores 0 and 1."""

    @property
    def instructions(self) -> str:
        """The opening of the system prompt."""

    @property
    def score_meanings(self) -> tuple[str, str]:
        """The meanings of the scores 0 and 1."""


class Basis(Struct, frozen=True):
    """The material to compare an answer with; `conversation` is True when the whole conversation is judged."""

    expected_outcome: bool = True
    reference: bool = True
    criterion: EvaluationCriteria | None = None
    conversation: bool = False

    @property
    def score_meanings(self) -> tuple[str, str]:
        """The meanings of the scores 0 and 1."""
        if self.criterion is not None:
            return "the criterion is not met at all", "it is fully met"
        if self.expected_outcome:
            return "the expected outcome is missed", "it is fully reached"
        return "entirely wrong", "entirely right"

    @property
    def instructions(self) -> str:
        """The opening of the freeform system prompt."""
        sentences = [
            "You judge the answer of an AI system.",
            "The candidate is a whole conversation; judge what the assistant does in it." if self.conversation else "",
            self._task(),
            "Be strict about facts and about what is missing.",
        ]
        return " ".join(filter(None, sentences))

    def _task(self) -> str:
        given = [("expected outcome", self.expected_outcome), ("reference answer", self.reference)]
        shown = " and the ".join(what for what, is_shown in given if is_shown)
        style = "; another wording, order or style than the reference is fine" if self.reference else ""
        if self.criterion is not None:
            known = f" What is right, the {shown} can tell{style}." if shown else ""
            return f"What counts is the criterion alone, whatever else is good or bad in the candidate answer.{known}"
        if not shown:
            return "What counts is whether the candidate answer does well what it was asked for."
        goal = "the expected outcome is reached" if self.expected_outcome else "it says the same in substance"
        return f"Compare the candidate answer with the {shown}. What counts is whether {goal}{style}."


WHOLE = Basis()
"""An expected outcome and a reference answer, which most cases have."""


@functools.lru_cache(maxsize=64)
def user_template(sections: tuple[str, ...]) -> str:
    """Return a user prompt with the named variables, each under its heading."""
    return "\n\n".join(f"[[ ## {name} ## ]]\n{{{{ {name} }}}}" for name in sections)


def criterion_section(criterion: EvaluationCriteria) -> str:
    """Return the section that names the one criterion, to be put in front of a user prompt."""
    described = ": {{ criterion_description }}" if criterion.description else ""
    return f"[[ ## criterion ## ]]\n{{{{ criterion_name }}}}{described}\n\n"


COMPARED = ("expected_outcome", "question", "reference_answer")
"""The variables that a judge is shown in addition to the answer, in this order; empty ones are omitted."""

USER_TEMPLATE = user_template((*COMPARED, "candidate_answer"))
"""The user prompt for a case in which no variable is empty (seed: Enforce JSON prompt contract)."""
