"""Configurations of AgentDock, as its documentation and source write them, and the results that its source computes.

Each form is one spelling. `DEVIATIONS` are the forms whose result differs here on purpose; the page names each of them.
"""

import asyncio
import math
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from operator import mul
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct
from tests.support.judging import signed

from agentv import (
    AggregatedEvaluationResult,
    ConfigError,
    EvaluationInput,
    EvaluationRunConfig,
    EvaluationRunner,
    JsonFileStorageProvider,
    run_evaluation_sync,
)
from agentv.types.provider import ProviderRequest

TEXT = "The parcel left Rotterdam on Friday. Track it with code NL-42."
TRUTH = "Your parcel left Rotterdam on Friday; the code is NL-42."


class Form(Struct, frozen=True, kw_only=True):
    """One spelling: an evaluator, the scale of its criterion, and its score by AgentDock's source."""

    name: str
    evaluator: Mapping[str, Any]
    score: Any
    scale: str = "binary"
    given: Mapping[str, Any] = {}


def replying(score: str) -> Callable[[ProviderRequest], str]:
    return lambda request: signed(request, f'"score": {score}, "reasoning": "so"')


def rule(**config: Any) -> dict[str, Any]:
    return {"type": "RuleBased", "rules": [{"criterionName": "C", "config": config}]}


def of(type_: str, **config: Any) -> dict[str, Any]:
    return {"type": type_, "config": {"criterionName": "C", **config}}


def judge(score: str, **config: Any) -> dict[str, Any]:
    return of(
        "LLMJudge", **{"llm": replying(score), "promptTemplate": "Rate {{response}} for {{criterion_name}}", **config}
    )


def tool(**config: Any) -> dict[str, Any]:
    return {"type": "ToolUsage", "config": {"rules": [{"criterionName": "C", "expectedToolName": "track", **config}]}}


def vector(text: str) -> list[float]:
    """The number of each letter in a text."""
    return [float(text.lower().count(chr(letter))) for letter in range(97, 123)]


class Embedder:
    """An embedding model as libraries have them."""

    def embed_documents(self, texts: Sequence[str]) -> list[list[float]]:
        return [vector(text) for text in texts]


class AsyncEmbedder:
    """An embedding model whose method is asynchronous."""

    async def embed(self, text: str) -> list[float]:
        return vector(text)


def cosine(one: Sequence[float], other: Sequence[float]) -> float:
    return math.fsum(map(mul, one, other)) / (math.hypot(*one) * math.hypot(*other))


CALLS = [
    {
        "id": "m1",
        "role": "assistant",
        "createdAt": datetime(2026, 5, 1, tzinfo=UTC),
        "content": "One moment. [Tool Call: track]",
        "showToolCall": True,
        "isComplete": True,
        "contentParts": [
            {"type": "text", "text": "One moment."},
            {"type": "tool_call", "toolCallId": "t1", "toolName": "track", "args": {"code": "NL-42", "days": 3}},
        ],
    },
    {
        "id": "m2",
        "role": "data",
        "isToolMessage": True,
        "createdAt": datetime(2026, 5, 1, tzinfo=UTC),
        "content": "[Tool Result: t1]",
        "contentParts": [{"type": "tool_result", "toolCallId": "t1", "result": {"state": "on its way"}}],
    },
]
HISTORY = {"messageHistory": CALLS}
MESSAGE = {
    "id": "m3",
    "role": "assistant",
    "createdAt": datetime(2026, 5, 1, tzinfo=UTC),
    "content": TEXT,
    "contentParts": [{"type": "text", "text": TEXT}],
}
IN_CONTEXT = {"context": {"toolCalls": [{"toolName": "track", "toolArguments": {"code": "NL-42"}}]}}


def has_code(args: Mapping[str, Any] | None) -> dict[str, Any]:
    return {"isValid": bool(args and args.get("code")), "reason": "no code"}


class Exact:
    """A custom evaluator with a config, as AgentDock's documentation declares it."""

    type = "ExactLength"

    async def evaluate(self, _given: Any, criteria: Sequence[Any], config: Mapping[str, Any]) -> list[dict[str, Any]]:
        return [
            {
                "criterionName": criterion.name,
                "score": config.get("expectedLength") == len(_given.text),
                "reasoning": f"{len(_given.text)} characters",
                "evaluatorType": self.type,
            }
            for criterion in criteria
        ]


COSINE = pytest.approx(cosine(vector(TEXT), vector(TRUTH)))

FORMS = (
    Form(name="length", evaluator=rule(type="length", max=80), score=True),
    Form(name="length-min", evaluator=rule(type="length", min=80, max=90), score=False),
    Form(name="length-likert5", evaluator=rule(type="length", max=80), scale="likert5", score=5),
    Form(name="length-numeric", evaluator=rule(type="length", max=8), scale="numeric", score=0),
    Form(name="length-string", evaluator=rule(type="length", max=80), scale="string", score="pass"),
    Form(name="length-custom-scale", evaluator=rule(type="length", max=80), scale="low|high", score=True),
    Form(name="length-message", evaluator=rule(type="length", max=80), given={"response": MESSAGE}, score=True),
    Form(
        name="regex-match",
        evaluator=rule(type="regex", pattern="nl-\\d+", flags="i", expectedOutcome="match"),
        score=True,
    ),
    Form(
        name="regex-no-match", evaluator=rule(type="regex", pattern="NL-\\d+", expectedOutcome="no_match"), score=False
    ),
    Form(
        name="includes-any",
        evaluator=rule(type="includes", keywords=["friday", "Monday"], expectedOutcome="any"),
        score=True,
    ),
    Form(
        name="includes-all",
        evaluator=rule(type="includes", keywords=["friday", "Monday"], expectedOutcome="all"),
        score=False,
    ),
    Form(name="includes-none", evaluator=rule(type="includes", keywords=["sorry"], expectedOutcome="none"), score=True),
    Form(
        name="includes-case",
        evaluator=rule(type="includes", keywords=["friday"], caseSensitive=True, expectedOutcome="any"),
        score=False,
    ),
    Form(name="json-parse", evaluator=rule(type="json_parse"), given={"response": '{"state": "sent"}'}, score=True),
    Form(name="json-parse-text", evaluator=rule(type="json_parse"), score=False),
    Form(name="rule-source-response", evaluator=rule(type="length", max=80, sourceField="response"), score=True),
    Form(name="judge", evaluator=judge("4"), scale="likert5", score=4),
    Form(name="judge-binary", evaluator=judge("true"), score=True),
    Form(name="judge-word", evaluator=judge('"Yes"'), score=True),
    Form(name="judge-numeric", evaluator=judge("0.75"), scale="numeric", score=0.75),
    Form(name="judge-string", evaluator=judge('"rather good"'), scale="string", score="rather good"),
    Form(name="judge-custom-scale", evaluator=judge('"medium"'), scale="low|medium|high", score="medium"),
    Form(name="judge-string-number", evaluator=judge("3"), scale="string", score="3"),
    Form(name="judge-system-prompt", evaluator=judge("5", systemPrompt="You grade parcels."), scale="likert5", score=5),
    Form(
        name="judge-llm-config",
        evaluator=of("LLMJudge", llmConfig=replying("2"), promptTemplate="{{response}}"),
        scale="likert5",
        score=2,
    ),
    Form(
        name="judge-template",
        evaluator=of("LLMJudge", llm=replying("2"), judgePromptTemplate="{{response}}"),
        scale="likert5",
        score=2,
    ),
    Form(name="judge-without-template", evaluator=of("LLMJudge", llm=replying("2")), scale="likert5", score=2),
    Form(
        name="judge-all-placeholders",
        evaluator=judge(
            "1",
            promptTemplate="{{input}} {{response}} {{reference}} {{criterion_name}}: {{criterion_description}} "
            "{{criterion_scale}}",
        ),
        scale="likert5",
        score=1,
    ),
    Form(name="nlp-function", evaluator=of("NLPAccuracy", embeddingModel=vector), scale="numeric", score=COSINE),
    Form(name="nlp-object", evaluator=of("NLPAccuracy", embeddingModel=Embedder()), scale="numeric", score=COSINE),
    Form(
        name="nlp-async-object",
        evaluator=of("NLPAccuracy", embeddingModel=AsyncEmbedder()),
        scale="numeric",
        score=COSINE,
    ),
    Form(name="nlp-threshold", evaluator=of("NLPAccuracy", embeddingModel=vector, similarityThreshold=0.8), score=True),
    Form(
        name="nlp-threshold-missed",
        evaluator=of("NLPAccuracy", embeddingModel=vector, similarityThreshold=0.999),
        score=False,
    ),
    Form(
        name="nlp-threshold-null",
        evaluator=of("NLPAccuracy", embeddingModel=vector, similarityThreshold=None),
        scale="numeric",
        score=COSINE,
    ),
    Form(
        name="nlp-adapter",
        evaluator={
            "type": "NLPAccuracy",
            "criterionName": "C",
            "embeddingAdapter": Embedder(),
            "sourceTextField": "response",
            "referenceTextField": "groundTruth",
            "similarityThreshold": 0.75,
        },
        score=True,
    ),
    Form(name="tool-called", evaluator=tool(), given=HISTORY, score=True),
    Form(name="tool-arguments", evaluator=tool(argumentChecks=has_code, isRequired=True), given=HISTORY, score=True),
    Form(
        name="tool-arguments-refused",
        evaluator=tool(argumentChecks=lambda _args: {"isValid": False}),
        given=HISTORY,
        score=False,
    ),
    Form(name="tool-required", evaluator=tool(isRequired=True), given={"messageHistory": CALLS[1:]}, score=False),
    Form(name="tool-optional", evaluator=tool(isRequired=False), given={"messageHistory": CALLS[1:]}, score=True),
    Form(name="tool-numeric", evaluator=tool(isRequired=True), given=HISTORY, scale="numeric", score=1),
    Form(
        name="tool-context",
        evaluator={
            "type": "ToolUsage",
            "config": {**tool(argumentChecks=has_code)["config"], "toolDataSource": "context"},
        },
        given=IN_CONTEXT,
        score=True,
    ),
    Form(
        name="tool-expected-calls",
        evaluator=of(
            "ToolUsage",
            expectedToolCalls=[
                {
                    "toolName": "track",
                    "required": True,
                    "argumentChecks": {"code": lambda code: isinstance(code, str), "days": lambda days: days > 0},
                }
            ],
        ),
        given=HISTORY,
        score=True,
    ),
    Form(
        name="lexical-jaro-winkler",
        evaluator=of("LexicalSimilarity", algorithm="jaro-winkler"),
        given={"response": "martha", "groundTruth": "marhta"},
        scale="numeric",
        score=pytest.approx(0.9611, abs=1e-4),
    ),
    Form(
        name="lexical-jaro-winkler-camel",
        evaluator=of("LexicalSimilarity", algorithm="jaroWinkler"),
        given={"response": "Martha", "groundTruth": "marhta"},
        scale="numeric",
        score=pytest.approx(0.9611, abs=1e-4),
    ),
    Form(
        name="lexical-levenshtein",
        evaluator=of("LexicalSimilarity", algorithm="levenshtein"),
        given={"response": "kitten", "groundTruth": "sitting"},
        scale="numeric",
        score=pytest.approx(1 - 3 / 7),
    ),
    Form(
        name="lexical-fields",
        evaluator=of(
            "LexicalSimilarity",
            algorithm="levenshtein",
            sourceField="prompt",
            referenceField="groundTruth",
            caseSensitive=True,
            normalizeWhitespace=False,
        ),
        given={"prompt": "Ab c", "groundTruth": "ab c"},
        scale="numeric",
        score=0.75,
    ),
    Form(
        name="lexical-nested",
        evaluator=of("LexicalSimilarity", algorithm="levenshtein", referenceField="context.answer"),
        given={"context": {"answer": TEXT}},
        scale="numeric",
        score=1,
    ),
    Form(
        name="keywords",
        evaluator=of(
            "KeywordCoverage",
            expectedKeywords=["parcel", "friday", "refund", "code"],
            keywordsSourceField="config",
            sourceTextField="response",
            caseSensitive=False,
        ),
        scale="numeric",
        score=0.75,
    ),
    Form(
        name="keywords-short-name",
        evaluator=of("KeywordCoverage", keywords=["parcel", "refund"], sourceField="response"),
        scale="numeric",
        score=0.5,
    ),
    Form(
        name="keywords-outcome",
        evaluator=of("KeywordCoverage", keywords=["parcel", "refund"], expectedOutcome="any"),
        score=True,
    ),
    Form(
        name="keywords-truth-list",
        evaluator=of("KeywordCoverage", keywordsSourceField="groundTruth"),
        given={"groundTruth": ["parcel", "refund"]},
        scale="numeric",
        score=0.5,
    ),
    Form(
        name="keywords-truth-commas",
        evaluator=of("KeywordCoverage", keywordsSourceField="groundTruth", groundTruthKeywordMode="split-comma"),
        given={"groundTruth": "parcel, refund"},
        scale="numeric",
        score=0.5,
    ),
    Form(
        name="keywords-truth-exact",
        evaluator=of("KeywordCoverage", keywordsSourceField="groundTruth", groundTruthKeywordMode="exact"),
        given={"groundTruth": "on friday"},
        scale="numeric",
        score=1,
    ),
    Form(
        name="keywords-context",
        evaluator=of("KeywordCoverage", keywordsSourceField="context.words", normalizeWhitespaceForSource=True),
        given={"context": {"words": ["parcel", "code"]}},
        scale="numeric",
        score=1,
    ),
    Form(
        name="sentiment-category",
        evaluator=of("Sentiment", outputType="category"),
        given={"response": "I hate this terrible, awful mess."},
        scale="string",
        score="negative",
    ),
    Form(
        name="sentiment-neutral",
        evaluator=of("Sentiment", outputType="comparativeNormalized"),
        given={"response": "The parcel is blue."},
        scale="numeric",
        score=0.5,
    ),
    Form(
        name="sentiment-thresholds",
        evaluator=of("Sentiment", outputType="category", positiveThreshold=0.3, negativeThreshold=-0.3),
        given={"response": "The parcel is blue."},
        scale="string",
        score="neutral",
    ),
    Form(
        name="toxicity",
        evaluator=of(
            "Toxicity", toxicTerms=["idiot"], sourceTextField="response", caseSensitive=False, matchWholeWord=True
        ),
        given={"response": "You Idiot."},
        score=False,
    ),
    Form(name="toxicity-clean", evaluator=of("Toxicity", toxicTerms=["idiot"]), score=True),
    Form(
        name="toxicity-part-of-word",
        evaluator=of("Toxicity", toxicTerms=["idiot"], matchWholeWord=False),
        given={"response": "What idiotic advice."},
        score=False,
    ),
    Form(
        name="toxicity-block-list",
        evaluator={"type": "Toxicity", "criterionName": "C", "blockList": ["parcel"], "sourceField": "response"},
        score=False,
    ),
    Form(name="custom", evaluator={"type": Exact, "config": {"expectedLength": len(TEXT)}}, score=True),
    Form(name="class-RuleBased", evaluator={**rule(type="length", max=80), "type": "RuleBasedEvaluator"}, score=True),
    Form(name="class-LLMJudge", evaluator={**judge("4"), "type": "LLMJudgeEvaluator"}, scale="likert5", score=4),
    Form(
        name="class-NLPAccuracy",
        evaluator=of("NLPAccuracyEvaluator", embeddingModel=vector),
        scale="numeric",
        score=COSINE,
    ),
    Form(name="class-ToolUsage", evaluator={**tool(), "type": "ToolUsageEvaluator"}, given=HISTORY, score=True),
    Form(
        name="class-LexicalSimilarity",
        evaluator=of("LexicalSimilarityEvaluator", algorithm="levenshtein"),
        given={"groundTruth": TEXT},
        scale="numeric",
        score=1,
    ),
    Form(
        name="class-KeywordCoverage",
        evaluator=of("KeywordCoverageEvaluator", expectedKeywords=["parcel"]),
        scale="numeric",
        score=1,
    ),
    Form(
        name="class-Sentiment",
        evaluator=of("SentimentEvaluator", outputType="category"),
        given={"response": "The parcel is blue."},
        scale="string",
        score="neutral",
    ),
    Form(name="class-Toxicity", evaluator=of("ToxicityEvaluator", toxicTerms=["idiot"]), score=True),
)


class Deviation(Struct, frozen=True, kw_only=True):
    """A form with a result of ours; `theirs` is that of AgentDock's source, `row` the start of its row on the page."""

    form: Form
    theirs: Any
    row: str


DEVIATIONS = (
    Deviation(
        form=Form(name="regex-without-outcome", evaluator=rule(type="regex", pattern="NL-\\d+"), score=True),
        theirs=False,
        row="`regex` without `expectedOutcome`",
    ),
    Deviation(
        form=Form(
            name="rule-source",
            evaluator=rule(type="length", max=5, sourceField="prompt"),
            given={"prompt": "Hi"},
            score=True,
        ),
        theirs=False,
        row="`sourceField` of a rule",
    ),
    Deviation(
        form=Form(
            name="sorensen",
            evaluator=of("LexicalSimilarity", algorithm="sorensenDice"),
            given={"response": "night", "groundTruth": "nacht"},
            scale="numeric",
            score=0.25,
        ),
        theirs=0.6,
        row="`sorensen-dice`",
    ),
    Deviation(
        form=Form(
            name="sentiment",
            evaluator=of("Sentiment"),
            given={"response": "I love it."},
            scale="numeric",
            score=pytest.approx(0.8185, abs=1e-3),
        ),
        theirs=0.6,
        row="`Sentiment`",
    ),
    Deviation(
        form=Form(
            name="sentiment-raw",
            evaluator=of("Sentiment", outputType="rawScore"),
            given={"response": "I love it."},
            scale="numeric",
            score=pytest.approx(0.6369, abs=1e-3),
        ),
        theirs=3,
        row="`Sentiment`",
    ),
    Deviation(
        form=Form(name="toxicity-pattern", evaluator=of("Toxicity", blockList=["^par.*"]), score=True),
        theirs=True,
        row="patterns in `blockList`",
    ),
    Deviation(
        form=Form(
            name="toxicity-disguised",
            evaluator=of("Toxicity", toxicTerms=["idiot"]),
            given={"response": "1d10t!"},
            score=False,
        ),
        theirs=True,
        row="disguised terms",
    ),
    Deviation(
        form=Form(
            name="tool-optional-numeric",
            evaluator=tool(),
            given={"messageHistory": CALLS[1:]},
            scale="numeric",
            score=1,
        ),
        theirs=0,
        row="an optional tool that was not called",
    ),
    Deviation(
        form=Form(
            name="nlp-threshold-numeric",
            evaluator=of("NLPAccuracy", embeddingModel=vector, similarityThreshold=0.8),
            scale="numeric",
            score=1,
        ),
        theirs=COSINE,
        row="`similarityThreshold`",
    ),
    Deviation(
        form=Form(
            name="keywords-truth-words",
            evaluator=of("KeywordCoverage", keywordsSourceField="groundTruth"),
            given={"groundTruth": "parcel refund"},
            scale="numeric",
            score=0,
        ),
        theirs=0.5,
        row="keywords in a text",
    ),
)


pytestmark = pytest.mark.filterwarnings("ignore:.semantic_similarity. as the only evaluator")


def judged(form: Form) -> AggregatedEvaluationResult:
    given = {
        "prompt": "Where is my parcel?",
        "response": TEXT,
        "groundTruth": TRUTH,
        "criteria": [{"name": "C", "description": "as it should be", "scale": form.scale}],
        "agentId": "agent-1",
        "sessionId": "session-1",
        **form.given,
    }
    return run_evaluation_sync(given, {"evaluatorConfigs": [form.evaluator], "metadata": {"suite": "forms"}})


def named(form: Form) -> str:
    return form.name


@pytest.mark.parametrize("form", FORMS, ids=named)
def test_a_form_of_agentdock_gives_the_result_of_its_source(form: Form) -> None:
    result = judged(form)
    assert result.run_errors == ()
    assert [(each.criterion_name, each.score, each.error) for each in result.results] == [("C", form.score, None)]


@pytest.mark.parametrize("deviation", DEVIATIONS, ids=lambda each: each.form.name)
def test_a_deviation_is_named_on_the_page(deviation: Deviation) -> None:
    result = judged(deviation.form)
    assert result.run_errors == ()
    assert [each.score for each in result.results] == [deviation.form.score]
    page = Path("docs/how-to/agentdock.md").read_text("utf-8")
    assert f"| {deviation.row}" in page


RUN = {
    "evaluatorConfigs": [rule(type="length", max=80)],
    "metadata": {"suite": "forms"},
}
GIVEN = {"response": TEXT, "criteria": [{"name": "C", "scale": "binary"}, {"name": "Other", "scale": "likert5"}]}


@pytest.mark.parametrize("key", ["storageProvider", "storageProvider_FOR_SERVER_USE_ONLY"])
def test_the_json_file_store_takes_the_options_of_agentdock(key: str, tmp_path: Path) -> None:
    store = JsonFileStorageProvider({"filePath": str(tmp_path / "log" / "judged.jsonl")})
    run_evaluation_sync(GIVEN, {**RUN, key: store})
    assert [result.overall_score for result in store.load_results()] == [1.0]


@pytest.mark.parametrize("options", [{}, {"filePath": ""}, {"filePath": "a", "path": "b"}, {"file": "a"}])
def test_options_without_one_path_are_refused(options: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match="filePath"):
        JsonFileStorageProvider(options)


class Saving:
    """A storage object as AgentDock's type declares it."""

    def __init__(self) -> None:
        self.saved: list[AggregatedEvaluationResult] = []

    async def saveResult(self, result: AggregatedEvaluationResult) -> None:  # noqa: N802 - AgentDock's name
        self.saved.append(result)


def test_a_storage_object_may_have_save_result_in_camel_case() -> None:
    store = Saving()
    run_evaluation_sync(GIVEN, {**RUN, "storageProvider_FOR_SERVER_USE_ONLY": store})
    run_evaluation_sync(GIVEN, {**RUN, "storageProvider_FOR_SERVER_USE_ONLY": {"saveResult": store.saveResult}})
    keywords: dict[str, Any] = {**RUN, "storageProvider_FOR_SERVER_USE_ONLY": store}
    run_evaluation_sync(EvaluationInput.from_dict(GIVEN), EvaluationRunConfig(**keywords))
    assert [result.overall_score for result in store.saved] == [1.0, 1.0, 1.0]
    assert store.saved[0].metadata == {"suite": "forms"}


def test_the_runner_takes_dicts() -> None:
    result = asyncio.run(EvaluationRunner(RUN).run(GIVEN))
    assert (result.scored, result.expected) == (1, 2)
    assert result.warnings == ("no evaluator scores the criterion 'Other'",)


def test_a_system_prompt_opens_the_request_to_the_judge() -> None:
    requests: list[ProviderRequest] = []

    def reply(request: ProviderRequest) -> str:
        requests.append(request)
        return signed(request, '"score": 3')

    judged(Form(name="-", evaluator=judge("", llm=reply, systemPrompt="You grade parcels."), scale="likert5", score=3))
    assert [str(request.system_prompt).splitlines()[0] for request in requests] == ["You grade parcels."]
    assert [str(request.question).splitlines()[0] for request in requests] != []


def test_an_embedding_model_that_fails_is_an_error_of_its_criterion() -> None:
    def broken(_text: str) -> list[float]:
        raise RuntimeError("no such model")

    result = judged(Form(name="-", evaluator=of("NLPAccuracy", embeddingModel=broken), scale="numeric", score=None))
    assert "no such model" in str(result.results[0].error)


def test_what_is_no_embedding_model_is_refused() -> None:
    with pytest.raises(ConfigError, match="not an embedding model"):
        judged(Form(name="-", evaluator=of("NLPAccuracy", embeddingModel=object()), score=None))


def test_a_dict_that_is_no_result_is_an_error_of_the_evaluator() -> None:
    class Wrong:
        type = "Wrong"

        def evaluate(self, _given: Any, _criteria: Any) -> list[dict[str, Any]]:
            return [{"criterion_nam": "C", "score": True}]

    result = run_evaluation_sync(GIVEN, {"evaluatorConfigs": [Wrong()]})
    assert "cannot be read" in result.run_errors[0].message


def test_every_name_on_the_page_is_in_a_form_that_is_accepted() -> None:
    page = Path("docs/how-to/agentdock.md").read_text("utf-8")
    table = page.partition("## What is read")[2].partition("\n\n`llm`")[0]
    names = {name for row in table.splitlines()[4:] for name in re.findall(r"`([^`]+)`", row.split("|")[2])}
    written = (
        f"{FORMS} {RUN} {DEVIATIONS} storageProvider_FOR_SERVER_USE_ONLY saveResult filePath JsonFileStorageProvider"
    )
    assert len(names) > 50
    assert [name for name in sorted(names) if name.removesuffix("Evaluator") not in written] == []


def test_forty_five_of_the_forms_give_the_result_of_agentdocks_source() -> None:
    assert len(FORMS) >= 45
    assert len({form.name for form in FORMS}) == len(FORMS)
