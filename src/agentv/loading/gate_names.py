"""Gates of an eval file that ask for what none of its rows can have."""

from collections.abc import Collection, Iterator, Mapping

from agentv.loading.reader import Reader
from agentv.loading.suites import ReadSuite
from agentv.scoring.applicable import applicable_evaluators
from agentv.scoring.gates import parse_gate
from agentv.types.cases import EvalCase, EvalSuite, EvaluatorConfig
from agentv.types.errors import ConfigError, UnknownNameError
from agentv.types.problems import Problem


def check_gate_names(read: ReadSuite, targets: Collection[str] | None) -> Iterator[Problem]:
    """Yield the gates on an unknown name, at their place. `targets` are those of the targets file, None without one.

    Nothing is said of a stream, whose rows are not known, or of a file whose cases could not all be read.
    """
    suite = read.suite
    is_whole = all(problem.severity != "error" for problem in read.problems)
    if suite is None or read.reader is None or not suite.gates or suite.cases.count is None or not is_whole:
        return
    known = _names(suite, targets)
    reader = Reader(read.reader.document)
    for index, expression in enumerate(suite.gates):
        try:
            gate = parse_gate(expression)
        except ConfigError:  # told already
            continue
        names = known.get(gate.name)
        if names is not None and gate.argument not in names:
            unknown = UnknownNameError(gate.name, gate.argument or "", known=names)
            reader.error(("gates", index), gate.wrong_argument(str(unknown)).line)
    yield from reader.problems


def _names(suite: EvalSuite, targets: Collection[str] | None) -> Mapping[str, Collection[str]]:
    cases = [case for case in suite.cases if isinstance(case, EvalCase)]
    evaluators = [each for case in cases for each in applicable_evaluators(case, suite)[0]]
    known: dict[str, Collection[str]] = {
        "dataset": {suite.dataset},
        "tag": {tag for case in cases for tag in (*suite.tags, *case.tags)},
        "evaluator": {each.name for each in evaluators if isinstance(each, EvaluatorConfig)},
    }
    return known if targets is None else {**known, "target": targets}
