"""What a judge holds an answer against, and the sections and instructions that follow from it.

A judge is told of nothing that it is not shown: without a reference answer there is no section for one, and no word of
one in the instructions.
"""

import functools

from msgspec import Struct

from agentv.types.criteria.scales import EvaluationCriteria


class Basis(Struct, frozen=True):
    """What there is to hold an answer against, `conversation` when the whole conversation is judged."""

    expected_outcome: bool = True
    reference: bool = True
    criterion: EvaluationCriteria | None = None
    conversation: bool = False

    @property
    def ends(self) -> tuple[str, str]:
        """What a score of 0 and a score of 1 mean."""
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
"""An expected outcome and a reference answer, as most cases have."""


@functools.lru_cache(maxsize=64)
def user_template(sections: tuple[str, ...]) -> str:
    """Return a user prompt of the variables named, each under its heading."""
    return "\n\n".join(f"[[ ## {name} ## ]]\n{{{{ {name} }}}}" for name in sections)


def criterion_section(criterion: EvaluationCriteria) -> str:
    """Return the section that names the one criterion, for in front of a user prompt."""
    described = ": {{ criterion_description }}" if criterion.description else ""
    return f"[[ ## criterion ## ]]\n{{{{ criterion_name }}}}{described}\n\n"


COMPARED = ("expected_outcome", "question", "reference_answer")
"""What a judge is shown beside the answer, in this order, as far as there is something."""

USER_TEMPLATE = user_template((*COMPARED, "candidate_answer"))
"""What a judge is shown of a case that has everything (seed: Enforce JSON prompt contract)."""
