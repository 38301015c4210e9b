"""A code judge: an answer to a plain question should be one short sentence."""

import json
import sys

answer = json.load(sys.stdin)["candidate_answer"].strip()
words, sentences = len(answer.split()), max(1, sum(answer.count(mark) for mark in ".!?"))
score = max(0.0, 1.0 - max(0, words - 12) / 24 - 0.25 * max(0, sentences - 1))
print(
    json.dumps(
        {
            "score": score,
            "reasoning": f"{words} words in {sentences} sentence(s)",
            "hits": ["brief"] if score == 1 else [],
            "misses": [] if score == 1 else ["rambles"],
        }
    )
)
