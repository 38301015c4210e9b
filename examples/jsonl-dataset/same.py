def judge(case):
    same = case["candidate_answer"].strip() == case["reference_answer"]
    return {"score": float(same), "misses": [] if same else [f"expected: {case['reference_answer']}"]}
