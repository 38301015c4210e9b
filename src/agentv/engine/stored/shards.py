"""Shards of one run: what they must have in common, and the plan of the run that they are merged into."""

from collections.abc import Iterator, Mapping, Sequence

from agentv.engine.running.recorded_report import load_recorded_report
from agentv.storage.run.stored import StoredRun
from agentv.types.errors import ConfigError
from agentv.types.json_value import JsonObject, JsonValue, objects_of
from agentv.types.records.run import RunRecord

_SHARD_OPTIONS = ("shard", "name", "segments")
"""Options that may differ between the shards of one run."""


def merged_plan(runs: Sequence[StoredRun], *, allow_mixed: bool) -> JsonObject:
    """Return the plan of the run that `runs` are merged into.

    Raises ConfigError for runs of other eval files, and, unless `allow_mixed` is True, for runs whose files, targets,
    settings or versions of agentv differ. With it, the differences are stored in the plan (`mixed`).
    """
    first = runs[0]
    mixed: dict[str, None] = {}
    for other in runs[1:]:
        for key in ("paths", "folder"):
            if first.run.plan.get(key) != other.run.plan.get(key):
                raise ConfigError(
                    f"runs {first.run_id} and {other.run_id} were started with different {key}; only shards of one "
                    "run, made with --shard, can be merged"
                )
        found = list(shard_differences(first.run, other.run))
        if found and not allow_mixed:
            raise ConfigError(
                f"runs {first.run_id} and {other.run_id} are not shards of one run: {'; '.join(found)}. Run the "
                "shards again with the same files, targets, options and version of agentv, or merge them with "
                "--allow-mixed, which makes the verdict INCOMPLETE (exit code 3)"
            )
        mixed |= dict.fromkeys(found)
    plan = {**first.run.plan, **_judged_by(runs), "suites": _merged_suites(runs), "rows": planned_rows(runs)}
    return {**plan, "mixed": list(mixed)} if mixed else plan


def missing_shards(runs: Sequence[StoredRun]) -> tuple[str, ...]:
    """Return the shards of which no run is given, if all runs are shards of an equal number."""
    shards = {run.run.shard for run in runs}
    counts = {None if shard is None else shard.partition("/")[2] for shard in shards}
    count = counts.pop() if len(counts) == 1 else None
    if count is None or not count.isdigit():
        return ()
    return tuple(shard for number in range(1, int(count) + 1) if (shard := f"{number}/{count}") not in shards)


def planned_rows(runs: Sequence[StoredRun]) -> int | None:
    """Return the number of results that all shards have together, as the runs recorded it; None if none did."""
    found = [_planned_in_all_shards(run) for run in runs]
    return max((count for count in found if count is not None), default=None)


def _planned_in_all_shards(run: StoredRun) -> int | None:
    recorded = load_recorded_report(run)
    if recorded is not None and recorded.planned_in_all_shards is not None:
        return recorded.planned_in_all_shards
    rows = run.run.plan.get("rows")
    return rows if isinstance(rows, int) and run.run.shard is None else None


def _judged_by(runs: Sequence[StoredRun]) -> JsonObject:
    """Return the options and gates of the whole run. Its budget is the sum of theirs, unless they shared a named one.

    Shards that were run with `--gate none` make a run with the gates of the files, as the shards recorded them.
    """
    plan = runs[0].run.plan
    options = _without_shard_options(plan.get("options"))
    has_no_gates = options.get("gates") == [] and all(run.run.shard for run in runs)
    if has_no_gates:
        options.pop("gates")
    gates = plan.get("gates") if options.get("gates") is not None else plan.get("file_gates", plan.get("gates"))
    if isinstance(budget := options.get("budget_usd"), int | float) and not options.get("budget_name"):
        options["budget_usd"] = budget * len(runs)
    return {"options": options, "gates": gates}


def _merged_suites(runs: Sequence[StoredRun]) -> list[JsonValue]:
    """Return the suites of the first run, each with the number of its cases in all runs together."""
    counts: dict[JsonValue, list[JsonValue]] = {}
    for run in runs:
        for suite in objects_of(run.run.plan.get("suites")):
            counts.setdefault(suite.get("path"), []).append(suite.get("cases"))

    def total(path: JsonValue) -> int | None:
        known = [count for count in counts[path] if isinstance(count, int)]
        return sum(known) if len(known) == len(counts[path]) else None

    suites = objects_of(runs[0].run.plan.get("suites"))
    are_shards = all(run.run.shard for run in runs)
    return [{**suite, "cases": total(suite.get("path"))} if are_shards else dict(suite) for suite in suites]


def shard_differences(first: RunRecord, other: RunRecord) -> Iterator[str]:
    """Yield what differs between two runs that should be shards of one run, by name."""
    if first.agentv_version != other.agentv_version:
        yield f"agentv {first.agentv_version} and {other.agentv_version}"
    yield from _option_differences(first.plan, other.plan)
    if first.plan.get("file_gates") != other.plan.get("file_gates"):
        yield "the gates of the files differ"
    yield from _named_differences(
        "eval file", _keyed(first, "suites", "path", "sha256"), _keyed(other, "suites", "path", "sha256")
    )
    scores, other_scores = (_keyed(run, "suites", "path", "pass_score") for run in (first, other))
    for path in scores.keys() & other_scores.keys():
        if scores[path] != other_scores[path]:
            yield f"pass_score of {path} ({_shown(scores[path])} and {_shown(other_scores[path])})"
    yield from _file_differences("file", first.plan.get("files"), other.plan.get("files"))
    for key, noun in (("targets", "target"), ("judges", "judge")):
        yield from _named_differences(noun, _keyed(first, key, "name", "key"), _keyed(other, key, "name", "key"))
    yield from _script_differences(first.plan.get("scripts"), other.plan.get("scripts"))


def _option_differences(plan: JsonObject, other_plan: JsonObject) -> Iterator[str]:
    options, others = (_without_shard_options(each.get("options")) for each in (plan, other_plan))
    changed = [
        f"{name} ({_shown(options.get(name))} and {_shown(others.get(name))})"
        for name in sorted({*options, *others})
        if options.get(name) != others.get(name)
    ]
    if changed:
        yield f"they were started with different options: {', '.join(changed)}"


def _named_differences(noun: str, found: Mapping[str, JsonValue], other: Mapping[str, JsonValue]) -> Iterator[str]:
    for name in sorted({*found, *other}):
        if name not in found or name not in other:
            yield f"only one of them has {noun} {name}"
        elif found[name] != other[name]:
            yield f"{noun} {name} was edited"


def _script_differences(found: JsonValue, other: JsonValue) -> Iterator[str]:
    if isinstance(found, Mapping) and isinstance(other, Mapping):
        for target in sorted(found.keys() & other.keys()):
            yield from _file_differences(f"script of target {target}:", found[target], other[target])


def _file_differences(noun: str, found: JsonValue, other: JsonValue) -> Iterator[str]:
    """Yield the files that both runs name and whose contents differ.

    Programs that are installed on a machine (absolute paths) are left out, and so are files that only the cases of one
    shard name.
    """
    if isinstance(found, Mapping) and isinstance(other, Mapping):
        for name in sorted(found.keys() & other.keys()):
            if found[name] != other[name] and not name.startswith("/"):
                yield f"{noun} {name} was edited"


def _keyed(run: RunRecord, key: str, name: str, value: str) -> dict[str, JsonValue]:
    return {str(each[name]): each.get(value) for each in objects_of(run.plan.get(key)) if name in each}


def _without_shard_options(value: JsonValue) -> dict[str, JsonValue]:
    options = value if isinstance(value, Mapping) else {}
    return {name: item for name, item in options.items() if name not in _SHARD_OPTIONS}


def _shown(value: JsonValue) -> str:
    return "not set" if value is None else f"{value}"
