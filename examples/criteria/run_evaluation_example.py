"""Judges one answer that exists already by every deterministic evaluator, a judge and a person, and keeps the result.

Needs the extra `text` for the tone: pip install 'agentv[text]'
"""

from pathlib import Path

from stand_in_judge import StandInJudge  # beside this file

from agentv import (
    EvaluationContext,
    EvaluationCriteria,
    EvaluationInput,
    EvaluationRunConfig,
    JsonFileStorageProvider,
    Message,
    ToolCall,
    evaluator,
    run_evaluation_sync,
)

HERE = Path(__file__).parent

CRITERIA = [
    EvaluationCriteria("polite", "Thanks the customer", "pass/fail"),
    EvaluationCriteria("short", "At most 40 words", "likert5", weight=0.5),
    EvaluationCriteria("complete", "Names the deadline and the amount", "percent", weight=2),
    EvaluationCriteria("close", "Is worded like the reference", "numeric"),
    EvaluationCriteria("tone", "Sounds friendly", ["hostile", "neutral", "friendly"]),
    EvaluationCriteria("safe", "Has no rude word", "binary", weight=3),
    EvaluationCriteria("looked-up", "Looked the order up with its number", "binary"),
    EvaluationCriteria("brisk", "Took few steps", "numeric"),
    EvaluationCriteria("helpful", "Helps the customer on", "likert5", weight=2),
    EvaluationCriteria("faithful", "Says what the policy says", "binary", weight=2),
    EvaluationCriteria("liked", "What people said of it", "likert5"),
    EvaluationCriteria("no-shouting", "Has no word in capitals"),
]

INPUT = EvaluationInput(
    prompt="May I return order 1007?",
    message_history=[
        Message("user", "May I return order 1007?"),
        Message("assistant", tool_calls=(ToolCall("lookup_order", {"id": 1007}, {"total": "59.90"}, id="call-1"),)),
    ],
    response="Thank you for asking! You may return it within 30 days and get 59.90 back.",
    ground_truth="You can return it within 30 days. You get 59.90 back.",
    criteria=CRITERIA,
    context={"policy": "Returns within 30 days", "channel": "mail"},
    session_id="session-7",
    agent_id="refund-desk",
)


@evaluator("no-shouting")
def no_shouting(context: EvaluationContext) -> bool:
    """Words in capitals are shouting."""
    return not any(len(word) > 3 and word.isupper() for word in context.candidate.split())


def knows_the_order(arguments: dict) -> dict:
    """Check the arguments of a tool call, as `argumentChecks` of the PRD does."""
    return {"isValid": arguments.get("id") == 1007, "reason": f"looked up {arguments.get('id')}"}


CONFIG = EvaluationRunConfig.from_dict(
    {
        "evaluatorConfigs": [
            {
                "type": "RuleBased",
                "rules": [
                    {"criterionName": "polite", "config": {"type": "includes", "keywords": ["thank"]}},
                    {"criterionName": "short", "config": {"type": "length", "max": 40, "unit": "words"}},
                ],
            },
            {
                "type": "KeywordCoverage",
                "config": {"criterionName": "complete", "expectedKeywords": ["30 days", "59.90"]},
            },
            {"type": "LexicalSimilarity", "config": {"criterionName": "close", "algorithm": "sorensen-dice"}},
            {"type": "Sentiment", "config": {"criterionName": "tone", "outputType": "comparativeNormalized"}},
            {"type": "Toxicity", "config": {"criterionName": "safe", "toxicTerms": ["damn", "shut up"]}},
            {
                "type": "ToolUsage",
                "rules": [
                    {
                        "criterionName": "looked-up",
                        "expectedToolName": "lookup_order",
                        "argumentChecks": knows_the_order,
                        "isRequired": True,
                    }
                ],
            },
            {"type": "trace", "criterion": "brisk", "max_tool_calls": 2, "max_errors": 0},
            {"type": "LLMJudge", "config": {"criteria": ["helpful", "faithful"], "llm": StandInJudge()}},
            {"type": "human", "criterion": "liked", "file": "feedback.csv"},
            no_shouting,
        ],
        "storage": JsonFileStorageProvider("judged.jsonl"),
        "metadata": {"release": "2026-11"},
    },
    base_dir=HERE,
)

if __name__ == "__main__":
    result = run_evaluation_sync(INPUT, CONFIG)
    for each in result.results:
        shown = each.error or f"{each.score}"
        print(f"{each.criterion_name:12} {shown:8} {each.value:.2f}  {each.evaluator_type}: {each.reasoning or ''}")
    print(f"\noverall {result.overall_score:.3f} ({result.scored} of {result.expected} scored), kept in judged.jsonl")
