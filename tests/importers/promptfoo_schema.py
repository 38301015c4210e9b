"""Every key of a promptfoo 0.121.20 configuration with an example, as its own schema names them."""

from typing import Any

BASE: dict[str, Any] = {
    "prompts": ["What is the capital of {{ country }}?"],
    "providers": ["echo"],
    "tests": [{"vars": {"country": "France"}, "assert": [{"type": "contains", "value": "France"}]}],
}

TOP: dict[str, Any] = {
    "description": "Capitals",
    "tags": {"team": "geo"},
    "scenarios": [
        {"config": [{"vars": {"country": "Japan"}}], "tests": [{"assert": [{"type": "regex", "value": "J"}]}]}
    ],
    "defaultTest": {"assert": [{"type": "word-count", "value": {"max": 20}}]},
    "evaluateOptions": {"repeat": 2},
    "commandLineOptions": {"repeat": 3},
    "env": {"OPENAI_API_KEY": "sk-not-carried-over"},
    "outputPath": ["out.json", "out.html"],
    "sharing": {"apiBaseUrl": "https://share.example"},
    "nunjucksFilters": {"shout": "shout.js"},
    "derivedMetrics": [{"name": "f1", "value": "2 * p * r / (p + r)"}],
    "extensions": ["file://hooks.py:before"],
    "metadata": {"owner": "me"},
    "redteam": {"purpose": "attack"},
    "writeLatestResults": True,
    "tracing": {"enabled": True},
    "notAKey": 1,
}

EVALUATE_OPTIONS: dict[str, Any] = {
    "cache": True, "delay": 100, "generateSuggestions": True, "suggestionsCount": 2, "interactiveProviders": True,
    "maxConcurrency": 4, "repeat": 2, "showProgressBar": False, "timeoutMs": 1500, "maxEvalTimeMs": 60000,
    "isRedteam": False, "silent": True, "filterRange": "0:2",
}  # fmt: skip

COMMAND_LINE: dict[str, Any] = {
    "description": "x", "prompts": ["p.txt"], "providers": ["echo"], "output": ["o.json"], "maxConcurrency": 4,
    "repeat": 2, "delay": 5, "vars": "v.csv", "tests": "t.csv", "config": ["c.yaml"], "assertions": "a.yaml",
    "modelOutputs": "m.json", "verbose": True, "grader": "openai:gpt-4o", "tableCellMaxLength": 100, "write": True,
    "cache": True, "table": True, "share": True, "noShare": True, "progressBar": True, "watch": True,
    "filterErrorsOnly": "e", "filterFailing": "f", "filterFailingOnly": "f", "filterFirstN": 2, "filterMetadata": "a=b",
    "filterPattern": "p", "filterPrompts": "p", "filterProviders": "p", "filterRange": "0:1", "filterSample": 3,
    "filterSampleSeed": 1, "filterTargets": "t", "var": {"style": "short"}, "tags": {"a": "b"},
    "generateSuggestions": True, "suggestionsCount": 2, "promptPrefix": "a", "promptSuffix": "b", "retryErrors": True,
    "envPath": ".env", "extension": ["file://x.py:f"],
}  # fmt: skip

TEST: dict[str, Any] = {
    "description": "Paris",
    "vars": {"country": "Spain"},
    "provider": "openai:gpt-4o",
    "providers": ["openai:gpt-4o"],
    "prompts": ["one"],
    "providerOutput": "Paris",
    "assert": [{"type": "equals", "value": "Paris"}],
    "assertScoringFunction": "file://score.py",
    "options": {"prefix": "Please: "},
    "threshold": 0.5,
    "metadata": {"region": "europe"},
    "notAKey": 1,
}

OPTIONS: dict[str, Any] = {
    "prefix": "Please: ", "suffix": " Thanks.", "postprocess": "output.trim()", "transform": "output.trim()",
    "transformVars": "vars", "storeOutputAs": "first", "rubricPrompt": "Judge {{ output }} by {{ rubric }}",
    "provider": "openai:gpt-4o", "factuality": {"agree": 1}, "disableVarExpansion": True,
    "disableConversationVar": True, "disableDefaultAsserts": True, "runSerially": True, "repeat": 3, "temperature": 0.1,
}  # fmt: skip

ASSERTION: dict[str, Any] = {
    "value": "Spain", "threshold": 0.5, "weight": 2, "metric": "correct", "provider": "openai:gpt-4o",
    "rubricPrompt": "Judge {{ output }} by {{ rubric }}", "config": {"a": 1}, "transform": "output.trim()",
    "contextTransform": "output.context", "notAKey": 1,
}  # fmt: skip

ASSERT_SET: dict[str, Any] = {"weight": 2, "metric": "both", "threshold": 0.5, "config": {"a": 1}, "notAKey": 1}

PROVIDER: dict[str, Any] = {
    "label": "mine", "config": {"temperature": 0}, "prompts": ["one"], "transform": "output.trim()", "delay": 100,
    "env": {"A": "b"}, "inputs": {"a": "text"}, "notAKey": 1,
}  # fmt: skip

PROVIDER_CONFIG: dict[str, Any] = {
    "temperature": 0, "max_tokens": 10, "max_completion_tokens": 10, "top_p": 0.5, "seed": 1, "stop": ["x"],
    "tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}], "tool_choice": "auto",
    "response_format": {"type": "json_object"}, "apiKey": "{{ env.MY_KEY }}", "apiKeyEnvar": "MY_KEY",
    "apiBaseUrl": "http://localhost:1/v1", "organization": "o", "headers": {"X-A": "b"}, "passthrough": {"a": 1},
    "cost": 0.1, "functionToolCallbacks": {"f": "file://x.js"}, "unheardOf": 1,
}  # fmt: skip

PROMPT: dict[str, Any] = {
    "id": "first", "label": "First", "raw": "Capital of {{ country }}?", "template": "Where is {{ country }}?",
    "display": "shown", "function": "file://p.py", "config": {"response_format": 1}, "prefix": "a", "suffix": "b",
    "notAKey": 1,
}  # fmt: skip

SCENARIO: dict[str, Any] = {"description": "x", "config": [{"vars": {"country": "Peru"}}], "tests": [{}], "notAKey": 1}

_TOOLS = {"name": "search", "args": {"q": "x"}}
ASSERTIONS: dict[str, dict[str, Any]] = {
    "agent-rubric": {"value": "is good"},
    "answer-relevance": {"threshold": 0.8},
    "bleu": {"value": "Paris is the capital", "threshold": 0.3},
    "classifier": {"value": "positive", "provider": "huggingface:x"},
    "contains": {"value": "{{ country }}"},
    "contains-all": {"value": ["a", "b"]},
    "contains-any": {"value": "a, b"},
    "contains-html": {},
    "contains-json": {"value": {"type": "object"}},
    "contains-sql": {},
    "contains-xml": {},
    "context-faithfulness": {"threshold": 0.8},
    "context-recall": {"value": "x"},
    "context-relevance": {"threshold": 0.5},
    "conversation-relevance": {},
    "cost": {"threshold": 0.01},
    "equals": {"value": {"a": 1}},
    "factuality": {"value": "Paris is the capital of {{ country }}"},
    "finish-reason": {"value": "stop"},
    "g-eval": {"value": ["is polite", "is short"]},
    "gleu": {"value": "x"},
    "guardrails": {},
    "icontains": {"value": "paris"},
    "icontains-all": {"value": ["a", "b"]},
    "icontains-any": {"value": ["a", "b"]},
    "is-html": {},
    "is-json": {"value": "type: object\nrequired: [a]"},
    "is-refusal": {},
    "is-sql": {},
    "is-valid-function-call": {},
    "is-valid-openai-function-call": {},
    "is-valid-openai-tools-call": {},
    "is-xml": {},
    "javascript": {"value": "output.includes('Paris')"},
    "latency": {"threshold": 2000},
    "levenshtein": {"value": "The capital is Paris", "threshold": 4},
    "llm-rubric": {"value": "names the capital of {{ country }}"},
    "pi": {"value": "x"},
    "meteor": {"value": "x"},
    "model-graded-closedqa": {"value": "names a city"},
    "model-graded-factuality": {"value": "Paris"},
    "moderation": {},
    "perplexity": {"threshold": 2},
    "perplexity-score": {"threshold": 0.5},
    "python": {"value": "'Paris' in output"},
    "regex": {"value": "\\bParis\\b"},
    "rouge-n": {"value": "Paris is the capital"},
    "ruby": {"value": "true"},
    "similar": {"value": "It is Paris", "threshold": 0.8},
    "similar:cosine": {"value": ["It is Paris", "Paris"]},
    "similar:dot": {"value": "x"},
    "similar:euclidean": {"value": "x"},
    "starts-with": {"value": "The"},
    "tool-call-f1": {"value": ["search", "open"]},
    "skill-used": {"value": "x"},
    "trajectory:goal-success": {"value": {"goal": "found it"}},
    "trajectory:tool-args-match": {"value": {**_TOOLS, "mode": "exact"}},
    "trajectory:step-count": {"value": {"type": "tool", "max": 4}},
    "trajectory:tool-sequence": {"value": {"mode": "exact", "steps": ["search", {"name": "open"}]}},
    "trajectory:tool-used": {"value": {"name": "search", "min": 2, "max": 3}},
    "trace-error-spans": {},
    "trace-span-count": {"value": {"pattern": "*", "max": 3}},
    "trace-span-duration": {"value": {"max": 10}},
    "search-rubric": {"value": "x"},
    "webhook": {"value": "https://x.example"},
    "word-count": {"value": {"min": 1, "max": 10}},
    "select-best": {"value": "the best"},
    "human": {},
    "max-score": {},
}
