"""Models of eval files (docs/reference/eval-files.md). Parts that depend on plug-ins or other files are read later."""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, ClassVar, Literal, TypeAlias, cast

from msgspec import Meta, field

from agentv.loading.files.documents import JsonPath
from agentv.loading.models.file_model import DEPRECATED, Checked, DefinedAs, FileModel, key_of
from agentv.loading.models.gates import Gates
from agentv.loading.models.reader import Reader, in_order, kind_of
from agentv.types.bounds import Count, Dollars, Name, Seconds, Share, Workers
from agentv.types.cases import (
    ITEM_PREFIX,
    METADATA_PREFIX,
    EvaluatorConfig,
    OnDependencyFailure,
    RubricItem,
    TurnRules,
)
from agentv.types.errors import nearest
from agentv.types.json_value import JsonValue, camel_case, snake_case
from agentv.types.problems import Problem
from agentv.types.structs import struct_fields
from agentv.types.workspaces import Keep, WorkspaceRepo, workspace_from_json


def _advice_on_keys(tool: str, keys: Mapping[str, str]) -> dict[str, str]:
    """Return the advice for each key of another tool, by each spelling of the key."""
    advice: dict[str, str] = {}
    for key, ours in keys.items():
        for spelling in (key, snake_case(key), camel_case(key)):
            advice[spelling] = f"`{key}` is {tool}'s; {ours}"
    return advice


def _advice_on_words(words: Mapping[str, str]) -> dict[str, str]:
    """Return the advice for each of several words, separated by spaces, that people write for a key of ours."""
    listed = ((word, ours) for several, ours in words.items() for word in several.split())
    return {spelling: ours for word, ours in listed for spelling in (word, camel_case(word))}


_SUITE_WORDS = _advice_on_words(
    {
        "name title": "`dataset` names the file in reports, and `agentv run --name` names a run",
        "threshold pass_threshold min_score": (
            'write `pass_score: 0.8` for each case, or `gates: ["pass_rate >= 80%"]` for the run'
        ),
        "questions inputs examples items data": "here it is `evalcases`, a list of cases or {file: data.csv}",
        "model models provider": "a model is a target: `target: openai:gpt-4o-mini`",
        "concurrency max_concurrency max_workers parallel": "here it is `workers`",
        "repeat repeats repetitions iterations runs": "here it is `trials`",
        "timeout timeout_ms": "here it is `timeout_seconds`",
        "budget max_cost max_budget": "here it is `budget_usd`",
        "judge_target judge_model llm": "here it is `judge`",
        "variables": "here it is `vars`",
        "system_prompt prompt": "here it is `prompts: [{system: …}]`",
        "scorers checks": "here it is `evaluators`",
    }
)
_CASE_WORDS = _advice_on_words(
    {
        "question prompt query message messages": "here it is `input`",
        "answer reference ideal ground_truth expected_answer correct_answer": "here it is `expected`",
        "name case_id test_id title": "here it is `id`",
        "threshold min_score": "here it is `execution: {pass_score: 0.8}`",
        "metrics scorers scorer checks": "here it is `evaluators`",
        "judge": "it is for a file, a target or an evaluator, not for a case",
        "variables": "here it is `vars`",
        "repeat repeats": "here it is `execution: {trials: 3}`",
        "timeout": "here it is `execution: {timeout_seconds: 60}`",
    }
)

FOREIGN_SUITE_KEYS: Mapping[str, str] = {
    **_advice_on_keys(
        "promptfoo",
        {
            "providers": "here the models are the targets of targets.yaml, and `target` or `--target` chooses one",
            "defaultTest": "here it is the suite's `evaluators` and `vars`",
            "scenarios": "here it is a case for each combination, or `evalcases: {file, case}`",
            "evaluateOptions": "here these are the keys `workers`, `trials` and `timeout_seconds`",
            "commandLineOptions": "here these are options of `agentv run`",
            "outputPath": "here it is `agentv run -o FILE`",
            "derivedMetrics": "here it is a gate, or an evaluator of type composite",
            "assertScoringFunction": "here it is an evaluator of type composite with an aggregator",
            "nunjucksFilters": "here a value is prepared in the dataset's function",
            "sharing": "here it is `agentv report RUN -o report.html`, or `--store URL` for a team",
            "redteam": "here attacks are cases like any other",
        },
    ),
    **_advice_on_keys(
        "inspect",
        {
            "samples": "here it is `evalcases`",
            "solver": "here it is a target: provider python, cli or http",
            "scorer": "here it is `evaluators`",
            "epochs": "here it is `trials`",
            "sandbox": "here it is `workspace`",
        },
    ),
    **_advice_on_keys(
        "DeepEval",
        {
            "goldens": "here it is `evalcases`",
            "test_cases": "here it is `evalcases`",
            "metrics": "here it is `evaluators`",
        },
    ),
}
"""The advice on keys at the top of other tools' files."""

FOREIGN_CASE_KEYS: Mapping[str, str] = {
    **_advice_on_keys(
        "promptfoo",
        {
            "provider": "here a run's targets are chosen by `target` of the suite or by `--target`",
            "options": "here each evaluator has its own settings",
            "assertScoringFunction": "here it is an evaluator of type composite with an aggregator",
        },
    ),
    **_advice_on_keys(
        "inspect",
        {
            "target": "here it is `expected`; the target of a case is `execution: {targets: [NAME]}`",
            "choices": "here they are part of the question in `input`",
            "sandbox": "here it is `execution.workspace`",
            "files": "here they are content parts `{type: file, value: PATH}` of a message",
            "setup": "here it is `execution.workspace.setup`",
        },
    ),
    **_advice_on_keys(
        "DeepEval",
        {
            "actual_output": "here the target answers; answers that exist are judged by `agentv score`",
            "retrieval_context": "here it is part of the question, or `metadata` that an evaluator reads",
            "expected_tools": "here it is an evaluator of type tool_trajectory",
            "tools_called": "here the target reports its calls",
        },
    ),
    **_advice_on_keys(
        "pydantic-evals",
        {"inputs": "here it is `input`", "expected_result": "here it is `expected`"},
    ),
}
"""The advice on keys of other tools' cases."""


EvaluatorType: TypeAlias = Annotated[str, Meta(min_length=1), DefinedAs("EvaluatorType")]

_GRADER_WARNING = "`grader` is deprecated"


class SingleFormModel(FileModel, frozen=True, kw_only=True):
    """The single form of `evaluators` in suites and cases: one evaluator, named by its type."""

    evaluator: EvaluatorType | None = None
    grader: Annotated[object, DefinedAs("EvaluatorType"), DEPRECATED] = None


SINGLE_FORM_KEYS = SingleFormModel.__struct_fields__
"""The keys of the single form; the first one that is given counts."""


def read_grader(reader: Reader, at: JsonPath, model: SingleFormModel) -> str | None:
    """Return the deprecated `grader` of the object at `at`, and record a warning.

    Return None if there is none, if `evaluator` overrides it, or if it is invalid, which is recorded.
    """
    if model.grader is None:
        return None
    reader.warn((*at, "grader"), _GRADER_WARNING, allowed="write `evaluator` instead", on_key=True)
    if model.evaluator is not None:
        return None
    if not isinstance(model.grader, str) or not model.grader:
        reader.error((*at, "grader"), f"must be the name of an evaluator type, but is {_kind(model.grader)}")
        return None
    return model.grader


def _kind(value: object) -> str:
    return "empty" if value == "" else kind_of(cast(JsonValue, value))


def warned_once(problems: Iterable[Problem]) -> Iterator[Problem]:
    """Yield problems in order; of the warnings about `grader`, only the first in each file."""
    warned: set[str] = set()
    for problem in in_order(problems):
        if problem.message == _GRADER_WARNING:
            if problem.path in warned:
                continue
            warned.add(problem.path)
        yield problem


Prompts: TypeAlias = Annotated[object, DefinedAs("Prompts")]
Cases: TypeAlias = Annotated[object, DefinedAs("Cases")]
CaseTemplate: TypeAlias = Annotated[object, DefinedAs("CaseTemplate")]
Content: TypeAlias = Annotated[object, DefinedAs("Content")]
Messages: TypeAlias = Annotated[object, DefinedAs("Messages")]
Evaluators: TypeAlias = Annotated[object, DefinedAs("Evaluators")]
Criteria: TypeAlias = Annotated[object, DefinedAs("Criteria")]
Json: TypeAlias = object
JsonFields: TypeAlias = dict[str, Json]


def _check_variable_names(variables: dict[str, object]) -> dict[str, object]:
    for name in variables:
        if not _VARIABLE_NAME.fullmatch(name):
            raise ValueError(
                f"{name!r} is not a valid variable name; use letters, digits, _ and -, with a letter or _ first"
            )
    return variables


_VARIABLE_NAME = re.compile(r"[^\W\d][\w-]*")

Variables: TypeAlias = Annotated[JsonFields, Checked(_check_variable_names)]


def _check_cluster(key: str) -> str:
    if not key.startswith(METADATA_PREFIX) or key == METADATA_PREFIX:
        raise ValueError("must be metadata.NAME, with the name of an entry of the cases' metadata")
    return key


ClusterKey: TypeAlias = Annotated[str, Checked(_check_cluster)]


class WorkspaceRepoModel(FileModel, frozen=True, kw_only=True):
    """A repository in a workspace."""

    path: Name
    git: Name
    ref: Name | None = None
    sparse: list[Name] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Raise ValueError for an invalid repository."""
        WorkspaceRepo(self.path, self.git, self.ref, tuple(self.sparse))


class WorkspaceModel(FileModel, frozen=True, kw_only=True):
    """A workspace: a folder that is created for each result."""

    template: Name | None = None
    git: Name | None = None
    ref: Name | None = None
    setup: str | None = None
    teardown: str | None = None
    keep: Keep | None = None
    repos: list[WorkspaceRepoModel] | None = None

    def __post_init__(self) -> None:
        """Raise ValueError for an invalid workspace."""
        workspace_from_json(self.given())


class SuiteExecutionModel(FileModel, frozen=True, kw_only=True):
    """Settings of a suite under `execution`, which is their place in files of AgentV; ours have them at the top."""

    target: Name | None = None
    targets: list[Name] = field(default_factory=list)
    evaluators: Evaluators = None
    workers: Workers | None = None
    trials: Count | None = None
    timeout_seconds: Seconds | None = None
    evaluator_timeout_seconds: Seconds | None = None
    pass_score: Share | None = None
    budget_usd: Dollars | None = None
    workspace: WorkspaceModel | None = None


TURN_KEYS = tuple(map(key_of, struct_fields(TurnRules)))
"""The keys of `execution` that say how a conversation is held."""


class CaseExecutionModel(TurnRules, FileModel, frozen=True, kw_only=True):
    """The options for running one case, which override those of the suite, and the rules of its conversation."""

    evaluators: Evaluators = None
    targets: list[Name] = field(default_factory=list)
    prompts: list[Name] = field(default_factory=list)
    trials: Count | None = None
    timeout_seconds: Seconds | None = None
    pass_score: Share | None = None
    workspace: WorkspaceModel | None = None
    depends_on: list[Name] = field(default_factory=list)
    on_dependency_failure: OnDependencyFailure = "skip"

    @property
    def turn_rules(self) -> TurnRules:
        """The rules of the case's conversation."""
        return TurnRules(**{name: getattr(self, name) for name in TurnRules.__struct_fields__})


class SuiteModel(SingleFormModel, frozen=True, kw_only=True):
    """The top level of an eval file."""

    ALIASES: ClassVar = {"cases": "evalcases"}
    ELSEWHERE: ClassVar = {**_SUITE_WORDS, **FOREIGN_SUITE_KEYS}

    schema_name: Annotated[Literal["agentv-eval-v2"] | None, Meta(extra={"file_key": "$schema"})] = None
    description: str | None = None
    dataset: Name | None = None
    tags: list[Name] = field(default_factory=list)
    target: Name | None = None
    targets: list[Name | JsonFields] = field(default_factory=list)
    judge: Name | JsonFields | None = None
    evaluators: Evaluators = None
    criteria: Criteria = None
    gates: Gates | None = None
    pass_score: Share | None = None
    trials: Count | None = None
    confirm_reruns: Count | None = None
    cluster: ClusterKey | None = None
    workers: Workers | None = None
    budget_usd: Dollars | None = None
    timeout_seconds: Seconds | None = None
    evaluator_timeout_seconds: Seconds | None = None
    vars: Variables = field(default_factory=dict)
    prompts: Prompts = None
    workspace: WorkspaceModel | None = None
    evalcases: Cases = None
    execution: SuiteExecutionModel | None = None
    dialect: Literal["agentv", "agentv-1", "agentv-2", "agentv-4"] | None = None


ROLES = {
    "id": "id",
    "input": "input",
    "question": "input",
    "prompt": "input",
    "expected": "expected",
    "expected_output": "expected",
    "target": "expected",
    "expected_outcome": "expected_outcome",
    "criteria": "expected_outcome",
    "tags": "tags",
    "messages": "messages",
}
"""The role of each column name. Of several columns with the same role, the first in this order has it.

A dataset's `columns` maps roles to other column names; there, a role may also be written as one of these names."""


def _check_roles(columns: dict[str, str]) -> dict[str, str]:
    for role in columns:
        if role not in ROLES and not role.startswith(METADATA_PREFIX):
            roles = ", ".join((*dict.fromkeys(ROLES.values()), f"{METADATA_PREFIX}NAME"))
            near = nearest(role, ROLES)
            hint = f"; did you mean {near!r}?" if near else ""
            raise ValueError(f"{role} is not a role of a column; roles: {roles}{hint}")
    return columns


class DatasetModel(FileModel, frozen=True, kw_only=True):
    """Cases in other files, or from a Python function."""

    file: Name | Annotated[list[Name], Meta(min_length=1)]
    columns: Annotated[dict[str, Name], Checked(_check_roles)] = field(default_factory=dict)
    case: CaseTemplate = None


class PartModel(FileModel, frozen=True, kw_only=True):
    """One part of a message's content."""

    type: Literal["text", "file", "image"]
    value: str


RubricItems: TypeAlias = Annotated[list[Name | RubricItem], Meta(extra={"numbered": ITEM_PREFIX})]


class PromptModel(FileModel, frozen=True, kw_only=True):
    """A prompt: one user message (`text`, `file`), a system prompt before the case's messages, or all messages."""

    id: Name | None = None
    text: Name | None = None
    file: Name | None = None
    system: Name | None = None
    messages: Annotated[list[object], Meta(min_length=1)] | None = None
    skip: Name | None = None

    def __post_init__(self) -> None:
        """Raise ValueError unless exactly one of its forms is given; a prompt with `skip` may have none."""
        forms = sum(each is not None for each in (self.text, self.file, self.system, self.messages))
        if forms != 1 and not (self.skip and forms == 0):
            raise ValueError("a prompt needs exactly one of `text`, `file`, `system` and `messages`")


class TurnModel(FileModel, frozen=True, kw_only=True):
    """One turn of a conversation that is held with the target: what the user says, and what makes a good answer."""

    ALIASES: ClassVar = {"expected_output": "expected", "outcome": "expected_outcome"}

    input: Content
    expected: Content = None
    expected_outcome: Name = ""
    rubrics: RubricItems = field(default_factory=list)
    evaluators: Evaluators = None


class CaseModel(SingleFormModel, frozen=True, kw_only=True):
    """One eval case."""

    ALIASES: ClassVar = {
        "outcome": "expected_outcome",
        "input_messages": "input",
        "expected_messages": "expected",
        "expected_output": "expected",
    }
    ELSEWHERE: ClassVar = {
        **_CASE_WORDS,
        **FOREIGN_CASE_KEYS,
        **{
            name: f"{name!r} belongs under `execution:`"
            for name in (
                *("trials", "timeout_seconds", "pass_score", "workspace"),
                *TURN_KEYS,
            )
        },
        **_advice_on_keys(
            "AgentV 4",
            {
                "mode": "here a case with `turns` is a conversation",
                "aggregation": "here it is `execution.turn_aggregate`",
                "window_size": "here it is `execution.turn_window`",
            },
        ),
    }

    id: Name
    input: Messages = None
    expected: Messages = None
    expected_outcome: Name = ""
    turns: Annotated[list[TurnModel], Meta(min_length=1)] = field(default_factory=list)
    tags: list[Name] = field(default_factory=list)
    metadata: JsonFields = field(default_factory=dict)
    vars: Variables = field(default_factory=dict)
    conversation_id: str | None = None
    rubrics: RubricItems = field(default_factory=list)
    criteria: Criteria = None
    evaluators: Evaluators = None
    add_evaluators: Evaluators = None
    execution: CaseExecutionModel | None = None
    skip: Name | None = None
    incomplete: Name | None = None


class EvaluatorModel(EvaluatorConfig, frozen=True, kw_only=True):
    """The common keys of all evaluators; their own settings are in the same object."""

    cost: Literal["free", "paid"] | None = None
    """Ignored, with a warning."""
