"""Eval cases, their suites, and the settings of their evaluators."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from operator import attrgetter
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Protocol, TypeAlias, TypedDict, Unpack

from msgspec import Meta, Struct, field
from msgspec.structs import force_setattr, replace

from agentv.types.bounds import Count, Name, Seconds, Share, Weight
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.messages import Message, Role
from agentv.types.problems import Problem
from agentv.types.readers import read_list, read_messages
from agentv.types.scales import EvaluationCriteria
from agentv.types.structs import CamelKeywords
from agentv.types.targets import TargetConfig

ItemScale: TypeAlias = Literal["likert5", "points10"]
"""The scale of a graded rubric item: 1 to 5, or 0 to 10."""


ITEM_PREFIX = "rubric"
"""An item of a list without an id is named by its position: `rubric-1`."""


class RubricItem(Struct, frozen=True):
    """One requirement that a rubric judge checks."""

    id: Annotated[Name, Meta(description="by default its position: rubric-1", extra={"derived": True})]
    description: Name
    weight: Weight = 1.0
    required: bool = False
    scale: Annotated[
        ItemScale | None, Meta(description="likert5 is 1 to 5, points10 is 0 to 10; without it: met or not")
    ] = None
    min_value: Annotated[Share | None, Meta(description="the lowest value that counts as met; by default 0.6")] = None


TurnAggregate: TypeAlias = Literal["mean", "min", "last"]
"""How the scores of a conversation's turns are aggregated."""

ConversationAggregate: TypeAlias = Literal["mean", "min", "max"]
"""How a case with `turns` is scored from the scores of its turns."""

OnTurnFailure: TypeAlias = Literal["continue", "stop"]
"""What a turn that does not pass does to the conversation."""
OnDependencyFailure: TypeAlias = Literal["skip", "fail", "run"]
"""What becomes of a case if a case that it depends on has an error."""
WithoutMessages: TypeAlias = Literal["unknown", "no_calls"]
WITHOUT_MESSAGES_HELP = "how to read an answer without messages: its tool calls are `unknown`, or it made `no_calls`"
Unmet: TypeAlias = Literal["fail", "zero"]
"""The effect of an unmet `required` on the case: the verdict `fail`, or also the score 0."""


_NOT_IN_FILES = Meta(extra={"not_in_files": True})


class EvaluatorConfig(Struct, frozen=True):
    """The configuration of one evaluator: the keys that all evaluators have as fields, its own in `settings`."""

    name: Name
    type: Annotated[Name, Meta(extra={"defined_as": "EvaluatorType"})]
    """The name of the type, not one of its aliases."""
    settings: Annotated[Mapping[str, JsonValue], _NOT_IN_FILES] = field(default_factory=dict)
    """The evaluator's own keys, as written."""
    weight: Weight = 1.0
    required: Annotated[
        bool | Share,
        Meta(
            extra={
                "aliases": ("is_required",),
                "instead": dict.fromkeys(
                    ("threshold", "min_score", "pass_score"), "write `required: 0.8`, the lowest score that may pass"
                ),
            }
        ),
    ] = False
    """True: the verdict must be `pass`. A number is the minimum score."""
    negate: bool = False
    criterion: Annotated[Name | None, Meta(extra={"aliases": ("criterion_name",)})] = None
    source: Annotated[Name, Meta(extra={"aliases": ("source_field", "source_text_field")})] = "response"
    timeout_s: Annotated[Seconds | None, Meta(extra={"file_key": "timeout_seconds"})] = None
    base_dir: Annotated[str, _NOT_IN_FILES] = "."
    """The folder of relative paths in `settings`."""
    window: Count | None = None
    """The number of last turns of a conversation that are judged; None is all."""
    per_turn: bool = False
    """True: each turn of a conversation is judged separately."""
    aggregate: TurnAggregate = "mean"
    """How the scores of turns that are judged separately are combined."""
    unmet: Unmet = "fail"
    """The effect on the case if what is `required` is not met."""


class EvaluatorObject(Protocol):
    """The part of an evaluator object that a case needs; `evaluation.Evaluator` is the whole contract."""

    @property
    def kind(self) -> str:
        """The kind of evaluator."""


EvaluatorLike: TypeAlias = EvaluatorConfig | EvaluatorObject
"""An element of a list of evaluators: a config (data), or an object that evaluates."""


class Location(Struct, frozen=True, gc=False):
    """A position in a file."""

    path: str
    line: int = 0
    """Counts from 1; 0 for an object from Python."""


_SEQUENCE_FIELDS = ("input_messages", "expected_messages", "rubrics", "criteria", "turns", "tags", "evaluators")
_sequences_after_messages = attrgetter(*_SEQUENCE_FIELDS[2:])
_DEFAULTS_AFTER_MESSAGES = ((), (), (), (), None)
_TYPED_SEQUENCES = 5
"""The items of the first five sequences have the types `_ITEM_TYPES`."""
_SEQUENCE_TYPES = frozenset({tuple, type(None)})
_ROLES: dict[str, Role] = {"input_messages": "user", "expected_messages": "assistant"}


class CaseTurn(Struct, frozen=True):
    """One turn of a conversation with the target: the user's message, and the expectations of a good answer.

    Without `evaluators` and `rubrics`, the default judge compares the answer with `expected_messages` or
    `expected_outcome`; if these are empty too, the turn is not judged and has no score.
    """

    input: Message
    """The user's message."""
    expected_messages: tuple[Message, ...] = ()
    """The reference answer."""
    expected_outcome: str = ""
    rubrics: tuple[RubricItem, ...] = ()
    evaluators: tuple[EvaluatorLike, ...] = ()


class TurnRules(Struct, frozen=True):
    """How a conversation is held and scored: keys of `execution` in files."""

    aggregate: Annotated[ConversationAggregate, Meta(extra={"file_key": "turn_aggregate"})] = "mean"
    """How the scores of the turns are combined; it changes no answer."""
    on_failure: Annotated[OnTurnFailure, Meta(extra={"file_key": "on_turn_failure"})] = "continue"
    """With "stop", a turn that does not pass ends the conversation, and the remaining turns score 0."""
    window: Annotated[Count | None, Meta(extra={"file_key": "turn_window"})] = None
    """The number of last turns that the target gets, including the new one; None is all of them."""


_ITEM_TYPES = frozenset({Message, RubricItem, EvaluationCriteria, CaseTurn})


class PromptMessages(Struct, frozen=True):
    """The messages of a case with one of the suite's prompts."""

    id: str
    messages: tuple[Message, ...]
    skip: str | None = None
    """The reason why the prompt is not sent."""


class CaseKeywords(TypedDict, total=False):
    """The keywords of EvalCase besides its messages and the expected outcome."""

    input: "str | Sequence[Message | Mapping[str, Any]]"
    """The same as `input_messages`."""
    expected: "str | Sequence[Message | Mapping[str, Any]]"
    """The same as `expected_messages`."""
    conversation_id: str | None
    tags: Sequence[str]
    metadata: JsonObject
    rubrics: "Sequence[RubricItem | str | Mapping[str, Any]]"
    evaluators: "Sequence[EvaluatorLike | Mapping[str, Any] | str | Callable[..., object]] | None"
    evaluator: str | None
    grader: str | None
    criteria: "Sequence[EvaluationCriteria | Mapping[str, Any]]"
    trials: int | None
    workspace: JsonObject | None
    location: Location | None
    timeout_s: float | None
    pass_score: float | None
    targets: tuple[str, ...]
    prompt_ids: tuple[str, ...]
    depends_on: tuple[str, ...]
    on_dependency_failure: OnDependencyFailure
    prompt: str | None
    prompts: tuple[PromptMessages, ...]
    turns: "Sequence[CaseTurn | Mapping[str, Any] | str]"
    turn_rules: TurnRules
    skip: str | None
    incomplete: str | None


class EvalCase(Struct, frozen=True, metaclass=CamelKeywords, gc=False):
    """One input for a target, with the expectations of a good answer.

    The keywords `input` and `expected`, the words of eval files, set `input_messages` and `expected_messages`.
    """

    KEYWORDS: ClassVar = {
        "input": "input_messages",
        "expected": "expected_messages",
        "expected_output": "expected_messages",
    }

    id: str
    input_messages: tuple[Message, ...] = ()
    """A string is one user message."""
    expected_outcome: str = ""
    expected_messages: tuple[Message, ...] = ()
    """A string is one assistant message."""
    conversation_id: str | None = None
    tags: tuple[str, ...] = ()
    metadata: JsonObject = field(default_factory=dict)
    rubrics: tuple[RubricItem, ...] = ()
    evaluators: tuple[EvaluatorLike, ...] | None = None
    """None means the evaluators of the suite, or the default judge if the suite has none."""
    evaluator: str | None = None
    grader: str | None = None
    criteria: tuple[EvaluationCriteria, ...] = ()
    trials: int | None = None
    workspace: JsonObject | None = None
    location: Location | None = None
    timeout_s: float | None = None
    """The deadline of all attempts together; None for that of the suite."""
    pass_score: float | None = None
    targets: tuple[str, ...] = ()
    """The targets that answer this case instead of the suite's."""
    prompt_ids: tuple[str, ...] = ()
    """The ids of the suite's prompts that the case is sent with; empty means all."""
    prompt: str | None = None
    """The id of the prompt in a case that `with_prompts` returned."""
    prompts: tuple[PromptMessages, ...] = ()
    """The case's messages with each of these prompts."""
    depends_on: tuple[str, ...] = ()
    """The ids of the cases that run before this one."""
    on_dependency_failure: OnDependencyFailure = "skip"
    """What to do if a case of `depends_on` has an error."""
    turns: tuple[CaseTurn, ...] = ()
    """The turns of a conversation. Each is sent after `input_messages`, the earlier turns and the target's answers to
    them; `evaluators` judge the whole conversation.
    """
    turn_rules: TurnRules = TurnRules()
    skip: str | None = None
    """The reason why the case is not run."""
    incomplete: str | None = None
    """The reason why its evaluators do not check all that they should; a result that would pass is then `skipped`."""

    if TYPE_CHECKING:

        def __init__(
            self,
            id: str,  # noqa: A002 - the name that it has in files
            input_messages: str | Sequence[Message | Mapping[str, Any]] = (),
            expected_outcome: str = "",
            expected_messages: str | Sequence[Message | Mapping[str, Any]] = (),
            **more: Unpack[CaseKeywords],
        ) -> None: ...

    @property
    def is_conversation(self) -> bool:
        """True if the target is called turn by turn, with its own answers."""
        return bool(self.turns)

    def with_prompts(self) -> "tuple[EvalCase, ...]":
        """Return the case with the messages of each prompt; the case itself without prompts."""
        if not self.prompts:
            return (self,)
        return tuple(
            replace(self, input_messages=each.messages, prompt=each.id, prompts=(), skip=self.skip or each.skip)
            for each in self.prompts
        )

    def __post_init__(self) -> None:
        """Convert a string or a list to a tuple, and messages, criteria and rubric items given as dicts to values.

        Raises MessageError or EvalFileError with the place of a value that cannot be read.
        """
        messages, expected = self.input_messages, self.expected_messages
        # Most cases of a dataset; the general check takes three times as long (bench/echo_cases.py).
        has_one_message = type(messages) is tuple and len(messages) == 1 and type(messages[0]) is Message
        has_one_or_none = expected == () or (
            type(expected) is tuple and len(expected) == 1 and type(expected[0]) is Message
        )
        others = _sequences_after_messages(self)
        if has_one_message and has_one_or_none and others == _DEFAULTS_AFTER_MESSAGES:
            return
        sequences = (messages, expected, *others)
        if _SEQUENCE_TYPES.issuperset(map(type, sequences)):
            items = chain.from_iterable(filter(None, sequences[:_TYPED_SEQUENCES]))
            if _ITEM_TYPES.issuperset(map(type, items)):
                return
        for name, given in zip(_SEQUENCE_FIELDS, sequences, strict=True):
            if isinstance(given, str) and name in _ROLES:
                force_setattr(self, name, (Message(role=_ROLES[name], content=given),))
            elif isinstance(given, list | tuple):
                has_values = _ITEM_TYPES.issuperset(map(type, given))
                force_setattr(self, name, tuple(given) if has_values else _READERS.get(name, tuple)(given))


_READERS: Mapping[str, Callable[[Sequence[object]], tuple[object, ...]]] = {
    "input_messages": partial(read_messages, at="input_messages"),
    "expected_messages": partial(read_messages, at="expected_messages"),
    "criteria": partial(read_list, "criteria", where="EvalCase"),
    "rubrics": partial(read_list, "rubrics", where="EvalCase"),
    "turns": partial(read_list, "turns", where="EvalCase"),
}


class BrokenCase(Struct, frozen=True):
    """A line of a streamed dataset that could not be read; its result has the error kind `config_error`."""

    id: str
    problems: tuple[Problem, ...]
    location: Location


CASES_CHECKED_AHEAD = 1_000
"""The number of cases of a stream that are checked before a run; the others are checked as they are read."""


class CaseSource(Protocol):
    """Cases that can be iterated repeatedly. `count` is None if their number is unknown.

    A source may also have `count_rows()`, which counts them without making cases, and returns None if it cannot.
    """

    @property
    def count(self) -> int | None:
        """The number of cases, if it is known without reading them."""

    def __iter__(self) -> Iterator[EvalCase | BrokenCase]:
        """Open the source and yield its cases in file order."""


class ListedCases(Struct, frozen=True):
    """Cases held in memory."""

    cases: tuple[EvalCase | BrokenCase, ...]

    @property
    def count(self) -> int | None:
        """The number of cases."""
        return len(self.cases)

    def __iter__(self) -> Iterator[EvalCase | BrokenCase]:
        """Yield the cases in order."""
        return iter(self.cases)


def targets_of(suite: "EvalSuite") -> tuple[str | None, ...]:
    """Return the names of the targets that answer the cases of a suite: its own, and those that its cases name.

    None stands for the default target. The targets in the cases of a stream are not included.
    """
    own: tuple[str | None, ...] = suite.targets or (suite.target,)
    listed = suite.cases if suite.cases.count is not None else ()
    named = [name for case in listed if isinstance(case, EvalCase) for name in case.targets]
    return tuple(dict.fromkeys((*own, *named)))


DEFAULT_CONFIRM_RERUNS = 2
"""The number of calls that confirm a regression of a case, unless its suite has `confirm_reruns`."""


METADATA_PREFIX = "metadata."
"""The prefix of columns, roles and keys that stand for an entry of a case's metadata."""


DEFAULT_GUIDELINE_PATTERNS = ("**/*.instructions.md", "**/instructions/**", "**/*.prompt.md", "**/prompts/**")


class EvalSuite(Struct, frozen=True):
    """One eval file."""

    path: str
    """Its name, relative to the repository root with `/`."""
    cases: CaseSource
    dataset: str = ""
    """The label of the suite in results."""
    description: str | None = None
    tags: tuple[str, ...] = ()
    target: str | None = None
    targets: tuple[str, ...] = ()
    """Each of them (without `targets`: `target`) answers every case that names no targets of its own."""
    judge: str | None = None
    """The target that judges the answers, instead of that of each target.

    A judge that is defined inline has the name that `name_of_target` returns.
    """
    evaluators: tuple[EvaluatorLike, ...] | None = None
    """`evaluators` and `evaluator` apply to cases without their own."""
    evaluator: str | None = None
    criteria: tuple[EvaluationCriteria, ...] = ()
    workers: int | Literal["auto"] | None = None
    trials: int = 1
    timeout_s: float | None = None
    evaluator_timeout_s: float | None = None
    workspace: JsonObject | None = None
    gates: tuple[str, ...] = ()
    pass_score: float | None = None
    """The verdict of a case is `pass` from this score on, else `fail`; with None it is that of `verdict_of`."""
    budget_usd: float | None = None
    """The limit of a run without `--budget-usd`."""
    project_workers: int | Literal["auto"] | None = None
    """The concurrent calls of targets that have no number of their own, from `.agentv.yaml`."""
    about: JsonObject = field(default_factory=dict)
    """What the file says about itself: author, version."""
    dialect: str = ""
    """The format of another program; "" for our own."""
    base_dir: str = "."
    repository_root: str = "."
    prices: Mapping[str, JsonObject] = field(default_factory=dict)
    """Dollars per million tokens, by patterns of model names."""
    redact: tuple[str, ...] = ()
    sha256: str = ""
    """That of the file's bytes."""
    scored_sha256: str = ""
    """That of its content without the settings that change no score, such as `gates`."""
    warnings: tuple[Problem, ...] = ()
    """Problems that do not stop a run."""
    variables: tuple[str, ...] = ()
    """The names that `--var` may set."""
    fills_placeholders: bool = False
    """True if `{{ name }}` stands for a variable or a column: the file declares variables or reads a dataset."""
    prompts: tuple[str, ...] = ()
    """The ids of its prompts; each case is run with each."""
    confirm_reruns: int = DEFAULT_CONFIRM_RERUNS
    cluster: str | None = None
    inline_targets: tuple[TargetConfig, ...] = ()
    files: tuple[str, ...] = ()
    """The other files that the suite consists of: its side file, datasets, code of datasets, and prompts."""
    guideline_patterns: tuple[str, ...] = DEFAULT_GUIDELINE_PATTERNS
    """The patterns of attached files that are instructions for the agent instead of a part of the question."""


def listed_cases(cases: Iterable[EvalCase] | Sequence[EvalCase]) -> ListedCases:
    """Return the cases as a CaseSource in memory."""
    return ListedCases(tuple(cases))
