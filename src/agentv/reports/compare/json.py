"""A comparison as JSON: agentv's versioned schema, and the schema of AgentV for TypeScript."""

from collections.abc import Iterable, Iterator, Mapping
from typing import TypeAlias

from agentv.reports.compare.compared import Compared, ExplainedComparison, GroupedComparison
from agentv.reports.text.printable import printable_json
from agentv.scoring.comparison.case_differences import CaseDifference, Change
from agentv.scoring.comparison.circumstances import find_circumstances
from agentv.scoring.comparison.compare import Comparison, finding_text
from agentv.scoring.comparison.explanations import Explain
from agentv.scoring.comparison.grouping import GroupKey
from agentv.scoring.comparison.measured import MeasureDifference
from agentv.scoring.comparison.sides import Side
from agentv.types.errors import ConfigError
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.messages_json import pretty_pieces
from agentv.types.results import CaseName, RunVerdict, gate_to_json

COMPARE_SCHEMA = "agentv-compare-1"

_EXPLAINED_AT_ONCE = 5_000
"""The number of cases whose texts are read together, which reads the planned cases once."""


Streamed: TypeAlias = Mapping[str, object]
"""A JSON object with iterators in place of its long lists."""


def comparison_json(compared: Compared) -> Iterator[str]:
    """Yield comparisons or groups as indented JSON that is safe to print, case by case."""
    if isinstance(compared, GroupedComparison):
        return _text(_groups(compared))
    if len(compared) == 1:
        return _text(_comparison(compared[0]))
    return _text({"schema": COMPARE_SCHEMA, "comparisons": map(_comparison, compared)})


def agentv_ts_json(compared: Compared) -> Iterator[str]:
    """Yield one comparison in the schema of AgentV for TypeScript, as indented JSON that is safe to print."""
    if isinstance(compared, GroupedComparison) or len(compared) > 1:
        raise ConfigError("the format agentv-ts has pairs of two whole runs only")
    return _text(_agentv_ts(compared[0].comparison))


def _text(output: Streamed) -> Iterator[str]:
    yield from map(printable_json, pretty_pieces(output))
    yield "\n"


def _groups(grouped: GroupedComparison) -> Streamed:
    return {
        "schema": COMPARE_SCHEMA,
        "by": grouped.by,
        "before": _side(grouped.whole.comparison.before),
        "after": _side(grouped.whole.comparison.after),
        "groups": ({**_key(each.key), **_comparison(each.explained)} for each in grouped.groups),
        "groups_only_before": [_key(key) for key in grouped.only_before],
        "groups_only_after": [_key(key) for key in grouped.only_after],
    }


def _key(key: GroupKey) -> JsonObject:
    target: JsonObject = {"target": key.target} if key.target else {}
    prompt: JsonObject = {} if key.prompt is None else {"prompt": key.prompt}
    return {"group": key.name, **prompt, **target}


def _comparison(explained: ExplainedComparison) -> Streamed:
    """Return a comparison as JSON; changed cases have the answers and reasons of both runs."""
    comparison, explain, verdict = explained
    alignment = comparison.alignment
    return {
        "schema": COMPARE_SCHEMA,
        "before": _side(comparison.before),
        "after": _side(comparison.after),
        "paired": comparison.is_paired,
        "finding": finding_text(comparison),
        "direction": comparison.finding,
        **_changes(comparison.score),
        "threshold": comparison.threshold,
        "wins": comparison.outcomes("win"),
        "losses": comparison.outcomes("loss"),
        "ties": comparison.outcomes("tie"),
        "detectable_difference": comparison.detectable,
        "cases_needed": comparison.needed,
        "measures": [_measure(each) for each in _measures(comparison)],
        "differs": [
            {"what": each.name, "before": each.before, "after": each.after}
            for each in find_circumstances(comparison.before, comparison.after)
        ],
        "regressed": _changed(comparison, "regressed", explain),
        "improved": _changed(comparison, "improved", explain),
        "cases": map(_case, comparison.cases),
        "only_before": _names(alignment.only_before),
        "only_after": _names(alignment.only_after),
        "without_result": (
            {
                **_name(pair.after),
                "before": comparison.before.error_count(pair.before),
                "after": comparison.after.error_count(pair.after),
            }
            for pair in comparison.pairs_with_errors
        ),
        **({} if verdict is None else {"verdict": _verdict(verdict)}),
    }


def _changes(score: MeasureDifference | None) -> JsonObject:
    """Return the numbers of cases whose mean score rose and fell; nothing for independent samples."""
    return {} if score is None or score.independent is not None else {"rose": score.higher, "fell": score.lower}


def _side(side: Side) -> JsonObject:
    """Return what identifies one side: its label, its state, and fields of its run."""
    fields = {key: side.run_json.get(key) for key in ("run_id", "name", "created_at", "agentv_version", "git")}
    return {
        "label": side.label,
        "state": side.state,
        "edits": list(side.edits),
        **{key: value for key, value in fields.items() if value is not None},
    }


def _measures(comparison: Comparison) -> Iterator[MeasureDifference]:
    yield from (each for each in (comparison.score, comparison.passed) if each is not None)
    yield from comparison.evaluators
    yield from comparison.spending


def _measure(measured: MeasureDifference) -> JsonObject:
    interval, test = measured.interval, measured.test
    return {
        "measure": measured.measure,
        "cases": measured.cases,
        **_samples(measured),
        "before": measured.before,
        "after": measured.after,
        "difference": measured.difference,
        "deviation": None if measured.differences is None else measured.differences.deviation,
        "higher": measured.higher,
        "lower": measured.lower,
        "interval": None
        if interval is None
        else {"low": interval.low, "high": interval.high, "level": interval.level, "method": interval.method},
        "p": measured.p,
        "test": None if test is None else {"name": test.name, "p": test.p, "exact": test.is_exact},
    }


def _samples(measured: MeasureDifference) -> JsonObject:
    """Return the sizes of independent samples: cases and clusters (sessions, and cases without a session)."""
    sides = measured.independent
    if sides is None:
        return {}
    return {
        "cases_before": measured.sizes[0],
        "cases_after": measured.sizes[1],
        "clusters_before": sides.before.clusters,
        "clusters_after": sides.after.clusters,
    }


def _changed(comparison: Comparison, change: Change, explain: Explain) -> Iterator[JsonObject]:
    cases = comparison.changed(change)
    for start in range(0, len(cases), _EXPLAINED_AT_ONCE):
        some = cases[start : start + _EXPLAINED_AT_ONCE]
        for case, (question, before, after, _) in zip(some, explain(some), strict=True):
            texts: JsonObject = {"answer_before": before.answer, "answer_after": after.answer}
            reasons: JsonObject = {"reason_before": before.reason, "reason_after": after.reason}
            yield {**_case(case), **({"question": question} if question else {}), **texts, **reasons}


def _case(case: CaseDifference) -> JsonObject:
    return {
        **_name(case.pair.after),
        "before": case.before,
        "after": case.after,
        "difference": case.difference,
        "passed_before": case.passed_before,
        "passed_after": case.passed_after,
        "outcome": case.outcome,
        "change": case.change,
        "content_changed": case.is_content_changed,
    }


def _names(names: Iterable[CaseName]) -> Iterator[JsonObject]:
    return map(_name, names)


def _name(name: CaseName) -> dict[str, JsonValue]:
    prompt: JsonObject = {} if name.prompt is None else {"prompt": name.prompt}
    return {"suite": name.suite, "eval_id": name.eval_id, "target": name.target, **prompt}


def _verdict(verdict: RunVerdict) -> JsonObject:
    return {
        "exit_code": verdict.exit_code,
        "sentence": verdict.sentence,
        "gates": [gate_to_json(each) for each in verdict.gates],
    }


def _agentv_ts(comparison: Comparison) -> Streamed:
    """Return pairs, numbers of unpaired cases, and a summary."""
    matched: Iterator[JsonObject] = (
        {
            "evalId": case.pair.after.eval_id,
            "score1": case.before,
            "score2": case.after,
            "delta": case.difference,
            "outcome": case.outcome,
        }
        for case in comparison.cases
    )
    paired = len(comparison.cases)
    alone_before, alone_after = (
        sum(side.measured_count("score", name) > 0 for name in side.names()) - paired
        for side in (comparison.before, comparison.after)
    )
    return {
        "matched": matched,
        "unmatched": {"file1": alone_before, "file2": alone_after},
        "summary": {
            "total": 2 * paired + alone_before + alone_after,
            "matched": paired,
            "wins": comparison.outcomes("win"),
            "losses": comparison.outcomes("loss"),
            "ties": comparison.outcomes("tie"),
            "meanDelta": comparison.mean_of_pairs,
        },
    }
