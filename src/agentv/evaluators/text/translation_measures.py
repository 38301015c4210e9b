"""The measures of machine translation, BLEU and chrF, by sacrebleu (extra `text`)."""

from agentv.scoring.text.similarity import Measure
from agentv.types.errors import MissingExtraError

try:
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF
except ImportError as error:
    raise MissingExtraError("the algorithms bleu and chrf", "text") from error


def make_translation_measure(name: str) -> Measure:
    """Return sacrebleu's sentence `bleu` or `chrf` (chrF2) on 0..1. Case folding is done before, not by sacrebleu.

    BLEU uses only n-grams that are not longer than the text (`effective_order`), as sacrebleu's own `sentence_bleu`
    does.
    """
    metric = BLEU(effective_order=True) if name == "bleu" else CHRF()

    def compare(candidate: str, reference: str) -> float:
        return float(metric.sentence_score(candidate, [reference]).score) / 100

    return Measure(compare, is_bounded=True)
