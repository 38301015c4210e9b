"""Keys of other tools' files that people write into eval files, and what to write here."""

from collections.abc import Mapping

from agentv.types.json_value import camel_case, snake_case


def _answers(tool: str, keys: Mapping[str, str]) -> dict[str, str]:
    """Return the advice for each key of a tool, in both spellings."""
    advice: dict[str, str] = {}
    for key, ours in keys.items():
        for spelling in (key, snake_case(key), camel_case(key)):
            advice[spelling] = f"`{key}` is {tool}'s; {ours}"
    return advice


SUITE_KEYS: Mapping[str, str] = {
    **_answers(
        "promptfoo",
        {
            "providers": "here the models are the targets of targets.yaml, and `target` or `--target` chooses one",
            "defaultTest": "here it is the suite's `execution.evaluators` and `vars`",
            "scenarios": "here it is a case for each combination, or `evalcases: {file, case}`",
            "evaluateOptions": "here it is `execution`: workers, trials, timeout_seconds",
            "commandLineOptions": "here these are options of `agentv run`",
            "outputPath": "here it is `agentv run -o FILE`",
            "derivedMetrics": "here it is a gate, or an evaluator of type composite",
            "assertScoringFunction": "here it is an evaluator of type composite with an aggregator",
            "nunjucksFilters": "here a value is prepared in the dataset's function",
            "sharing": "here it is `agentv report RUN -o report.html`, or `--store URL` for a team",
            "redteam": "here attacks are cases like any other",
        },
    ),
    **_answers(
        "inspect",
        {
            "samples": "here it is `evalcases`",
            "solver": "here it is a target: provider python, cli or http",
            "scorer": "here it is `execution.evaluators`",
            "epochs": "here it is `execution.trials`",
            "sandbox": "here it is `execution.workspace`",
        },
    ),
    **_answers(
        "DeepEval",
        {
            "goldens": "here it is `evalcases`",
            "test_cases": "here it is `evalcases`",
            "metrics": "here it is `execution.evaluators`",
        },
    ),
}
"""The advice for keys at the top of other tools' files."""

CASE_KEYS: Mapping[str, str] = {
    **_answers(
        "promptfoo",
        {
            "provider": "here a run's targets are chosen by `target` of the suite or by `--target`",
            "options": "here an evaluator has its settings itself",
            "assertScoringFunction": "here it is an evaluator of type composite with an aggregator",
        },
    ),
    **_answers(
        "inspect",
        {
            "choices": "here they are part of the question in `input_messages`",
            "sandbox": "here it is `execution.workspace`",
            "files": "here they are content parts `{type: file, value: PATH}` of a message",
            "setup": "here it is `execution.workspace.setup`",
        },
    ),
    **_answers(
        "DeepEval",
        {
            "actual_output": "here the target answers; answers that exist are judged by `agentv score`",
            "retrieval_context": "here it is text of the question, or `metadata` that an evaluator reads",
            "expected_tools": "here it is an evaluator of type tool_trajectory",
            "tools_called": "here the target reports its calls",
        },
    ),
    **_answers(
        "pydantic-evals",
        {"inputs": "here it is `input_messages`", "expected_result": "here it is `expected_messages`"},
    ),
}
"""The advice for keys of cases of other tools."""
