"""`human`: scores that people gave an answer (labels), read from JSON Lines or CSV files."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from statistics import mode
from typing import Annotated

from msgspec import Meta, Struct
from msgspec.structs import replace

from agentv.evaluators.named_files import real_path
from agentv.scoring.judges.feedback import effective_feedback, parse_feedback
from agentv.scoring.results.completion import score_of_results
from agentv.scoring.results.criteria import criterion_named, failed_result, normalize, result_of
from agentv.scoring.results.folding import combine, spread
from agentv.types.cases import EvaluatorConfig
from agentv.types.errors import EvaluatorError, nearest
from agentv.types.evaluation import EvaluationContext, EvaluationResult, EvaluationScore
from agentv.types.json_value import JsonObject
from agentv.types.problems import Problem
from agentv.types.protocols import EvaluatorTools
from agentv.types.records.answer import ResultKey
from agentv.types.records.label import Feedback
from agentv.types.scales import EvaluationCriteria

CACHED_FILES = 8
"""The number of parsed files in the cache; a file that changes is parsed again."""


class HumanSettings(Struct, frozen=True, kw_only=True):
    """Settings of `human`."""

    file: Annotated[
        str | tuple[str, ...],
        Meta(description="the JSON Lines or CSV file with the labels, or a list of such files"),
    ]
    criteria: Annotated[tuple[str, ...], Meta(description="the criteria to use; default: all that have labels")] = ()

    def __post_init__(self) -> None:
        """Raise ValueError for an empty list or an empty path."""
        if not self._paths or not all(self._paths):
            raise ValueError("`file` must name a file")

    @property
    def _paths(self) -> tuple[str, ...]:
        return (self.file,) if isinstance(self.file, str) else self.file

    def files(self, base_dir: str) -> tuple[str, ...]:
        """Return the files as absolute paths."""
        return tuple(real_path(Path(base_dir, path)) for path in self._paths)

    def problems(self, base_dir: str) -> tuple[Problem, ...]:
        """Return the problems of all lines of the files. Raises OSError when a file cannot be read."""
        return tuple(problem for path in self.files(base_dir) for problem in _read_labels(path).problems)

    @property
    def criteria_from_results(self) -> bool:
        """True if the labels name the criteria."""
        return not self.criteria

    def unmatched_labels(self, base_dir: str, names: Collection[str], suite: str) -> tuple[Problem, ...]:
        """Return a warning for each id in the labels that is not in `names`, the ids of cases and sessions of `suite`.

        Labels that name another suite are left out. Of many, the first few are listed. Raises OSError when a file
        cannot be read.
        """
        found: list[Problem] = []
        for path in self.files(base_dir):
            for eval_id, labels in _read_labels(path).by_case.items():
                own = [label for label in labels if label.suite in (None, suite)]
                if own and eval_id not in names:
                    found.append(_unmatched(eval_id, own, suite, names))
        listed = found[:_MAX_UNMATCHED]
        if len(found) > len(listed):
            last = listed[-1]
            listed[-1] = replace(last, message=f"{last.message} (and {len(found) - len(listed):,} more such ids)")
        return tuple(listed)


_MAX_UNMATCHED = 5
"""The maximum number of ids without a case that are listed."""


def _unmatched(eval_id: str, labels: Sequence[Feedback], suite: str, names: Collection[str]) -> Problem:
    first = labels[0].location
    ignored = "this label is" if len(labels) == 1 else f"its {len(labels):,} labels are"
    return Problem(
        first.path,
        f"no case of {suite} has the id {eval_id!r}, so {ignored} not used",
        first.line,
        1,
        severity="warning",
        suggestion=nearest(eval_id, names),
    )


class _LabelFile(Struct, frozen=True):
    """A parsed file: its labels by the id of their case or session, and its problems."""

    by_case: Mapping[str, tuple[Feedback, ...]]
    problems: tuple[Problem, ...]


def make_human(config: EvaluatorConfig, settings: HumanSettings, _tools: EvaluatorTools) -> "HumanEvaluator":
    """Return a `human` evaluator. Raises EvaluatorError when its files cannot be read."""
    try:
        problems = settings.problems(config.base_dir)
        files = [_read_labels(path).by_case for path in settings.files(config.base_dir)]
    except OSError as error:
        raise EvaluatorError(f"cannot read {error.filename}: {error.strerror}") from error
    if problems:
        raise EvaluatorError("; ".join(problem.render() for problem in problems))
    return HumanEvaluator(files, criteria=settings.criteria or ((config.criterion,) if config.criterion else ()))


class HumanEvaluator:
    """An evaluator that averages the labels of an answer for each criterion; `skipped` when there are none.

    Each of `files` maps the id of a case, or of a session, to its labels. Each criterion in `criteria` gets a result,
    with value None if it has no label. If `criteria` is empty, every labelled criterion gets a result.
    """

    kind = "human"
    reads_workspace = False
    inline = True
    reusable = True

    def __init__(self, files: Sequence[Mapping[str, tuple[Feedback, ...]]], *, criteria: Sequence[str] = ()) -> None:
        self._files = files
        self._criteria = tuple(dict.fromkeys(criteria))

    def evaluate(self, context: EvaluationContext) -> EvaluationScore:
        """Return the score of the labels for the case or session of `context`."""
        by_criterion: dict[str, list[Feedback]] = {name: [] for name in self._criteria}
        for label in effective_feedback(self._labels_of(context)):
            if not self._criteria or label.criterion in by_criterion:
                by_criterion.setdefault(label.criterion, []).append(label)
        results = [_result(name, labels, context.criteria) for name, labels in by_criterion.items() if labels]
        unjudged = [_unjudged(name, context.criteria) for name, labels in by_criterion.items() if not labels]
        score = score_of_results(results, "human", context.criteria)
        if any(result.value is not None or result.error is not None for result in results):
            return replace(score, results=(*score.results, *unjudged))
        reason = "the labels have no numeric scale" if results else f"no label for case {context.eval_case.id!r}"
        return EvaluationScore(0.0, status="skipped", reasoning=reason, results=(*results, *unjudged))

    def _labels_of(self, context: EvaluationContext) -> Iterator[Feedback]:
        """Yield the labels for the case, then those for its session: a label of a conversation may name either."""
        key = ResultKey(
            context.suite,
            context.eval_case.id,
            context.target.name,
            trial=context.trial,
            prompt=context.eval_case.prompt,
        )
        for eval_id in dict.fromkeys((key.eval_id, context.session_id or key.eval_id)):
            named_key = replace(key, eval_id=eval_id)
            for by_case in self._files:
                yield from (label for label in by_case.get(eval_id, ()) if label.is_about(named_key))


def _result(name: str, labels: Sequence[Feedback], criteria: Iterable[EvaluationCriteria]) -> EvaluationResult:
    """Return the result of one criterion: the mean of the labels on 0..1, and each annotator's own score."""
    defined = next((criterion for criterion in criteria if criterion.name == name), None)
    criterion = defined or EvaluationCriteria(name, scale="numeric", min=0.0, max=1.0)
    values: list[float | None] = []
    for label in labels:
        try:
            values.append(normalize(label.score, criterion))
        except ValueError as error:
            hint = "" if defined else f"; define {name!r} under `criteria`, with its scale"
            return failed_result(f"{label.place}: {error}{hint}", criterion, kind="human", reasoning=_reasoning(labels))
    numbers = [value for value in values if value is not None]
    entries = [_annotator_entry(label, value) for label, value in zip(labels, values, strict=True)]
    metadata: JsonObject = {"annotators": entries}
    if len(numbers) < len(labels):  # labels without a numeric scale have no mean
        most_frequent = mode([str(label.score) for label in labels])
        return EvaluationResult(
            criterion_name=name,
            score=most_frequent,
            value=None,
            scale=criterion.scale,
            reasoning=_reasoning(labels),
            evaluator_type="human",
            metadata=metadata,
        )
    if len(numbers) > 1:
        metadata = {**metadata, "spread": spread(numbers)}
    mean = combine(numbers, "mean")
    return result_of(mean, criterion, kind="human", reasoning=_reasoning(labels), metadata=metadata)


def _unjudged(name: str, criteria: Sequence[EvaluationCriteria]) -> EvaluationResult:
    """Return the result of a criterion without labels, which has neither a value nor an error."""
    scale = criterion_named(name, criteria).scale
    return EvaluationResult(
        criterion_name=name, score=None, value=None, scale=scale, reasoning="no label", evaluator_type="human"
    )


def _reasoning(labels: Sequence[Feedback]) -> str | None:
    reasons = [(label.annotator, label.reasoning) for label in labels if label.reasoning]
    return " | ".join(f"{name}: {text}" if name and len(labels) > 1 else text for name, text in reasons) or None


def _annotator_entry(label: Feedback, value: float | None) -> JsonObject:
    entry: JsonObject = {
        "annotator": label.annotator or None,
        "score": label.score,
        "value": value,
        "reasoning": label.reasoning,
        "time": label.time.isoformat() if label.time else None,
        "line": label.place,
    }
    return {key: item for key, item in entry.items() if item is not None}


def _read_labels(path: str) -> _LabelFile:
    """Return the parsed file, read again only after a change. Raises OSError when it cannot be read."""
    stat = Path(path).stat()
    return _cached_labels(path, stat.st_mtime_ns, stat.st_size)


@lru_cache(CACHED_FILES)
def _cached_labels(path: str, _modified_ns: int, _size: int) -> _LabelFile:
    """Return the parsed file; time and size are arguments only so that a changed file misses the cache."""
    file, cwd = Path(path), Path.cwd()
    shown = file.relative_to(cwd).as_posix() if file.is_relative_to(cwd) else path
    found = parse_feedback(file.read_bytes(), source=shown)
    by_case: dict[str, list[Feedback]] = {}
    for label in found.feedback:
        by_case.setdefault(label.eval_id, []).append(label)
    return _LabelFile({name: tuple(labels) for name, labels in by_case.items()}, tuple(found.problems))
