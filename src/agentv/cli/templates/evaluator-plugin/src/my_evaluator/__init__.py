"""An evaluator for agentv: `type: my_evaluator` in eval files, wherever this package is installed."""

from agentv import EvaluationContext, EvaluationScore, evaluator

JARGON = ("leverage", "synergy", "utilize")


@evaluator("my_evaluator")
def my_evaluator(context: EvaluationContext, *, words: tuple[str, ...] = JARGON) -> EvaluationScore:
    """Score the share of jargon words that the answer avoids.

    Parameters after `*` become settings: `words: [leverage, holistic]` in an eval file. The function may also return a
    number from 0 to 1, a bool, or an EvaluationResult for each criterion.
    """
    answer = context.candidate.lower()
    used = tuple(word for word in words if word.lower() in answer)
    return EvaluationScore(
        score=1 - len(used) / len(words) if words else 1.0,
        hits=tuple(f"avoids {word!r}" for word in words if word not in used),
        misses=tuple(f"says {word!r}" for word in used),
        expected_aspect_count=max(1, len(words)),
    )
