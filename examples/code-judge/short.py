def judge(case):
    limit = case["config"]["limit"]
    length = len(case["candidate_answer"])
    verdict = f"{length} of at most {limit} characters"
    return {"score": 1.0, "hits": [verdict]} if length <= limit else {"score": limit / length, "misses": [verdict]}
