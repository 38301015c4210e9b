"""Stands in for a model, so that the example needs no key: a requirement is met when the answer holds its quoted words.

A real judge reads the same prompt with understanding; this one shows what it is sent and what it must reply.
"""

import json
import re


def judge(request):
    nonce, answer = re.search(r"<<<candidate_answer (\w+)>>>\n(.*?)\n<<<end of", request.question, re.DOTALL).groups()
    requirements = request.question.partition("[[ ## requirements ## ]]")[2]
    checks = []
    for item_id, description in re.findall(r"^- (\S+?)(?: \(.*?\))?: (.*)$", requirements, re.MULTILINE):
        wanted = re.findall(r'"(.*?)"', description)
        missing = [words for words in wanted if words not in answer]
        reasoning = f"the answer lacks {', '.join(missing)}" if missing else "the answer says so"
        checks.append({"id": item_id, "satisfied": not missing, "reasoning": reasoning})
    return json.dumps({"nonce": nonce, "checks": checks, "overall_reasoning": "compared word by word"})
