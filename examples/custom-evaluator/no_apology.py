from agentv import evaluator


@evaluator("no_apology")
def no_apology(context):
    return "sorry" not in context.candidate.lower()
