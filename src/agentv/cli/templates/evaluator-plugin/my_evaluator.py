"""An evaluator of your own: `type: plain_words` in eval files, found through `plugins:` in .agentv.yaml."""

from agentv import EvaluationContext, EvaluationScore, evaluator

JARGON = ("leverage", "synergy", "utilize")


@evaluator("plain_words")
def plain_words(context: EvaluationContext) -> EvaluationScore:
    """Score the share of jargon words that the answer avoids. A plain number or bool would do as well."""
    answer = context.candidate.lower()
    used = tuple(word for word in JARGON if word in answer)
    return EvaluationScore(
        score=1 - len(used) / len(JARGON),
        hits=tuple(f"avoids {word!r}" for word in JARGON if word not in used),
        misses=tuple(f"says {word!r}" for word in used),
        expected_aspect_count=len(JARGON),
    )
