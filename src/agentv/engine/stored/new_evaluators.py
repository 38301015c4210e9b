"""The replacement of suites' evaluators, for `agentv rescore --evaluators FILE`."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from agentv.engine.planning.inputs import SuiteInput
from agentv.loading.criteria.run_configs import load_run_config
from agentv.registry import Specs
from agentv.types.cases import BrokenCase, CaseSource, EvalCase, EvalSuite, EvaluatorConfig


class _Bare(Struct, frozen=True):
    """A suite's cases without evaluators of their own."""

    cases: CaseSource

    @property
    def count(self) -> int | None:
        return self.cases.count

    def __iter__(self) -> Iterator[EvalCase | BrokenCase]:
        for case in self.cases:
            if isinstance(case, EvalCase):
                yield replace(case, evaluators=None, evaluator=None, grader=None, rubrics=())
            else:
                yield case


def with_evaluators_of(
    path: Path, suites: tuple[SuiteInput, ...], specs: Specs, allow_paths: Sequence[str] = ()
) -> tuple[SuiteInput, ...]:
    """Return suites whose cases are all scored by the evaluators of a file, and by no others.

    The file has the format of `agentv score`: `evaluators: [...]`. `allow_paths` are folders outside of the project
    that it may name files in. Raises EvalFileError with all its problems.
    """
    evaluators = load_run_config(path, specs, allow_paths=allow_paths).evaluators
    return tuple(replace(item, suite=_judged_by(item.suite, evaluators)) for item in suites)


def _judged_by(suite: EvalSuite, evaluators: tuple[EvaluatorConfig, ...]) -> EvalSuite:
    return replace(suite, cases=_Bare(suite.cases), evaluators=evaluators, evaluator=None)
