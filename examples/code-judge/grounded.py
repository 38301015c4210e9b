"""Every number in the answer must come from the question or from a tool: the agent may not invent any."""

import json
import re
import sys


def numbers(text):
    return {float(found) for found in re.findall(r"\d+(?:\.\d+)?", text)}


def main():
    case = json.load(sys.stdin)
    calls = [call for message in case["output_messages"] or [] for call in message.get("tool_calls", [])]
    known = numbers(case["question"]) | numbers(json.dumps(calls))
    used = sorted(numbers(case["candidate_answer"]))
    hits = [f"{number:g} comes from a tool or the question" for number in used if number in known]
    misses = [f"{number:g} comes from nowhere" for number in used if number not in known]
    score = len(hits) / len(used) if used else 1.0
    print(json.dumps({"score": score, "hits": hits, "misses": misses, "reasoning": f"{len(used)} numbers looked up"}))


main()
