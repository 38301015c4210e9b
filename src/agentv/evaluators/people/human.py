"""`human`: what people said of an answer, read from files, as results beside those of the judges."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from statistics import mode
from typing import Annotated

from msgspec import Meta, Struct
from msgspec.structs import replace

from agentv.scoring.judges.feedback import latest, parse_feedback
from agentv.scoring.results.completion import score_of_results
from agentv.scoring.results.criteria import criterion_named, failed_result, result_of
from agentv.scoring.results.folding import combine, spread
from agentv.scoring.results.scales import normalize
from agentv.types.cases import EvaluatorConfig
from agentv.types.criteria.scales import EvaluationCriteria
from agentv.types.errors import EvaluatorError
from agentv.types.evaluation import EvaluationContext, EvaluationResult, EvaluationScore
from agentv.types.json_value import JsonObject
from agentv.types.problems import Problem
from agentv.types.protocols import EvaluatorTools
from agentv.types.records.answer import ResultKey
from agentv.types.records.label import Feedback

FILES_KEPT = 8
"""How many files stay in memory once they are read, each as long as it does not change."""


class HumanSettings(Struct, frozen=True, kw_only=True):
    """Settings of `human`."""

    file: Annotated[
        str | tuple[str, ...],
        Meta(description="the JSON Lines or CSV file with what people said, or a list of such files"),
    ]
    criteria: Annotated[
        tuple[str, ...], Meta(description="the criteria to take; without it every one that people judged")
    ] = ()

    def __post_init__(self) -> None:
        """Refuse a setting that names no file."""
        if not all(self._paths) or not self._paths:
            raise ValueError("`file` must name a file")

    @property
    def _paths(self) -> tuple[str, ...]:
        return (self.file,) if isinstance(self.file, str) else self.file

    def files(self, base_dir: str) -> tuple[str, ...]:
        """Return the files as absolute paths."""
        return tuple(str(Path(base_dir, path).resolve()) for path in self._paths)

    def problems(self, base_dir: str) -> tuple[Problem, ...]:
        """Return what is wrong in the files, every line of it. Raises OSError when one cannot be read."""
        return tuple(problem for path in self.files(base_dir) for problem in _read(path).problems)


class _Judged(Struct, frozen=True):
    """A file as it was read: its feedback by case, and what is wrong in it."""

    by_case: Mapping[str, tuple[Feedback, ...]]
    problems: tuple[Problem, ...]


def make_human(config: EvaluatorConfig, settings: HumanSettings, _tools: EvaluatorTools) -> "HumanEvaluator":
    """Make a `human`. Raises EvaluatorError when its files cannot be read."""
    try:
        problems = settings.problems(config.base_dir)
        files = [_read(path).by_case for path in settings.files(config.base_dir)]
    except OSError as error:
        raise EvaluatorError(f"cannot read {error.filename}: {error.strerror}") from error
    if problems:
        raise EvaluatorError("; ".join(problem.render() for problem in problems))
    return HumanEvaluator(files, criteria=settings.criteria or ((config.criterion,) if config.criterion else ()))


class HumanEvaluator:
    """Returns what annotators said of an answer, averaged for each criterion; skipped when nobody judged it.

    `files` hold the feedback by case. Of the `criteria` each has its result, without a value when nobody judged it; no
    `criteria` means all that people judged.
    """

    kind = "human"
    inline = True
    reusable = True

    def __init__(self, files: Sequence[Mapping[str, tuple[Feedback, ...]]], *, criteria: Sequence[str] = ()) -> None:
        self._files = files
        self._criteria = tuple(dict.fromkeys(criteria))

    def evaluate(self, context: EvaluationContext) -> EvaluationScore:
        """Look up the feedback on the case or session of `context`."""
        by_criterion: dict[str, list[Feedback]] = {name: [] for name in self._criteria}
        for said in latest(self._about(context)):
            if not self._criteria or said.criterion in by_criterion:
                by_criterion.setdefault(said.criterion, []).append(said)
        results = [_result(name, said, context.criteria) for name, said in by_criterion.items() if said]
        unjudged = [_unjudged(name, context.criteria) for name, said in by_criterion.items() if not said]
        score = score_of_results(results, "human", context.criteria)
        if any(result.value is not None or result.error is not None for result in results):
            return replace(score, results=(*score.results, *unjudged))
        reason = "people's words are on no scale" if results else f"nobody judged {context.eval_case.id!r}"
        return EvaluationScore(0.0, status="skipped", reasoning=reason, results=(*results, *unjudged))

    def _about(self, context: EvaluationContext) -> Iterator[Feedback]:
        slot = ResultKey(context.suite, context.eval_case.id, context.target.name, context.trial)
        for eval_id in dict.fromkeys((slot.eval_id, context.session_id or slot.eval_id)):
            its_slot = replace(slot, eval_id=eval_id)
            for by_case in self._files:
                yield from (said for said in by_case.get(eval_id, ()) if said.is_about(its_slot))


def _result(name: str, said: Sequence[Feedback], criteria: Iterable[EvaluationCriteria]) -> EvaluationResult:
    """Return what the annotators say of one criterion: their mean on 0..1, and each annotator's own score."""
    defined = next((criterion for criterion in criteria if criterion.name == name), None)
    criterion = defined or EvaluationCriteria(name, scale="numeric", min=0.0, max=1.0)
    values: list[float | None] = []
    for each in said:
        try:
            values.append(normalize(each.score, criterion))
        except ValueError as error:
            hint = "" if defined else f"; define {name!r} under `criteria`, with its scale"
            return failed_result(f"{each.place}: {error}{hint}", criterion, kind="human", reasoning=_reasoning(said))
    numbers = [value for value in values if value is not None]
    metadata: JsonObject = {"annotators": [_entry(each, value) for each, value in zip(said, values, strict=True)]}
    if len(numbers) < len(said):  # words that no scale orders are kept, not averaged
        word = mode([str(each.score) for each in said])
        return EvaluationResult(
            criterion_name=name,
            score=word,
            value=None,
            scale=criterion.scale,
            reasoning=_reasoning(said),
            evaluator_type="human",
            metadata=metadata,
        )
    if len(numbers) > 1:
        metadata = {**metadata, "spread": spread(numbers)}
    mean = combine(numbers, "mean")
    return result_of(mean, criterion, kind="human", reasoning=_reasoning(said), metadata=metadata)


def _unjudged(name: str, criteria: Sequence[EvaluationCriteria]) -> EvaluationResult:
    """Return the result of a criterion that nobody judged: no value, and no error either."""
    scale = criterion_named(name, criteria).scale
    return EvaluationResult(
        criterion_name=name, score=None, value=None, scale=scale, reasoning="nobody judged it", evaluator_type="human"
    )


def _reasoning(said: Sequence[Feedback]) -> str | None:
    reasons = [(each.annotator, each.reasoning) for each in said if each.reasoning]
    return " | ".join(f"{name}: {text}" if name and len(said) > 1 else text for name, text in reasons) or None


def _entry(said: Feedback, value: float | None) -> JsonObject:
    entry: JsonObject = {
        "annotator": said.annotator or None,
        "score": said.score,
        "value": value,
        "reasoning": said.reasoning,
        "time": said.time.isoformat() if said.time else None,
        "line": said.place,
    }
    return {key: item for key, item in entry.items() if item is not None}


def _read(path: str) -> _Judged:
    """Return what a file says, read anew only when it changed. Raises OSError when it cannot be read."""
    stat = Path(path).stat()
    return _read_once(path, stat.st_mtime_ns, stat.st_size)


@lru_cache(FILES_KEPT)
def _read_once(path: str, _modified: int, _size: int) -> _Judged:
    file, here = Path(path), Path.cwd()
    shown = file.relative_to(here).as_posix() if file.is_relative_to(here) else path
    found = parse_feedback(file.read_bytes(), source=shown)
    by_case: dict[str, list[Feedback]] = {}
    for said in found.feedback:
        by_case.setdefault(said.eval_id, []).append(said)
    return _Judged({name: tuple(said) for name, said in by_case.items()}, tuple(found.problems))
