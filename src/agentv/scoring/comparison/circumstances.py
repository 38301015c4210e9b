"""Differences between the setups of two runs: suites, targets, scripts, options, versions, code."""

from collections.abc import Iterator, Mapping

from msgspec import Struct
from msgspec.structs import replace

from agentv.scoring.comparison.sides import Side, evaluator_of
from agentv.scoring.keys.identity import canonical_json
from agentv.types.json_value import JsonObject, JsonValue

_DIGEST = 12
_OWN_OPTIONS = ("name", "targets", "baseline", "gates")


class Circumstance(Struct, frozen=True):
    """One setting that differs, with its two values; None in a run without it. `name` describes the setting."""

    name: str
    before: str | None
    after: str | None


def find_circumstances(before: Side, after: Side) -> tuple[Circumstance, ...]:
    """Return what differs between the setups of two runs: from their run.json, and from the evaluators that judged."""
    found = [*_of_plan(before.about, after.about), *_evaluators(before, after)]
    return tuple(each for each in found if each.before != each.after)


def _of_plan(before: JsonObject, after: JsonObject) -> Iterator[Circumstance]:
    if not before or not after:
        return
    was, is_now = _entry(before, "plan"), _entry(after, "plan")
    yield from _named("suite", _suites(was), _suites(is_now))
    yield from _targets(_by_name(was), _by_name(is_now))
    yield from _named("script", _scripts(was), _scripts(is_now))
    yield from _named("option", _options(was), _options(is_now))
    for key in ("seed", "price_table_date", "python"):
        yield Circumstance(key.replace("_", " "), _shown(was.get(key)), _shown(is_now.get(key)))
    yield Circumstance("agentv", _shown(before.get("agentv_version")), _shown(after.get("agentv_version")))
    yield Circumstance("git commit", _commit(before), _commit(after))


def _named(kind: str, before: Mapping[str, JsonValue], after: Mapping[str, JsonValue]) -> Iterator[Circumstance]:
    for name in dict.fromkeys((*before, *after)):
        yield Circumstance(f"{kind} {name}", _shown(before.get(name)), _shown(after.get(name)))


def _targets(before: Mapping[str, JsonObject], after: Mapping[str, JsonObject]) -> Iterator[Circumstance]:
    """Yield the settings that differ, target by target; single targets with different names are paired."""
    is_renamed = len(before) == len(after) == 1 and list(before) != list(after)
    if is_renamed:
        ((was, old),) = before.items()
        ((is_now, new),) = after.items()
        yield Circumstance("target", was, is_now)
        before, after = {is_now: old}, {is_now: new}
    for name in dict.fromkeys((*before, *after)):
        yield Circumstance(f"target {name}", _present(name in before), _present(name in after))
        if name in before and name in after:
            old, new = before[name], after[name]
            settings = [{"provider": each.get("provider"), **_entry(each, "settings")} for each in (old, new)]
            for each in _named("", *settings):
                yield replace(each, name=f"{each.name.strip()} of {'the target' if is_renamed else f'target {name}'}")


def _by_name(plan: JsonObject) -> dict[str, JsonObject]:
    targets = plan.get("targets")
    listed = targets if isinstance(targets, list | tuple) else ()
    return {str(each.get("name")): each for each in listed if isinstance(each, Mapping)}


def _suites(plan: JsonObject) -> dict[str, JsonValue]:
    suites = plan.get("suites")
    listed = suites if isinstance(suites, list | tuple) else ()
    return {
        str(each.get("path")): f"sha256 {str(each.get('sha256'))[:_DIGEST]}"
        for each in listed
        if isinstance(each, Mapping)
    }


def _scripts(plan: JsonObject) -> dict[str, JsonValue]:
    return {
        path: f"sha256 {str(digest)[:_DIGEST]}"
        for scripts in _entry(plan, "scripts").values()
        if isinstance(scripts, Mapping)
        for path, digest in scripts.items()
    }


def _options(plan: JsonObject) -> dict[str, JsonValue]:
    return {name: value for name, value in _entry(plan, "options").items() if name not in _OWN_OPTIONS}


def _commit(about: JsonObject) -> str | None:
    git = _entry(about, "git")
    commit = git.get("commit")
    return None if commit is None else f"{str(commit)[:_DIGEST]}{' with changes' if git.get('dirty') else ''}"


def _evaluators(before: Side, after: Side) -> Iterator[Circumstance]:
    was, is_now = set(before.measures), set(after.measures)
    for measure in (*before.measures, *after.measures):
        name = evaluator_of(measure)
        if name is not None:
            yield Circumstance(f"evaluator {name}", _present(measure in was), _present(measure in is_now))


def _present(is_there: bool) -> str | None:  # noqa: FBT001 - the only argument
    return "present" if is_there else None


def _entry(record: JsonObject, key: str) -> JsonObject:
    value = record.get(key)
    return value if isinstance(value, Mapping) else {}


def _shown(value: JsonValue) -> str | None:
    return value if value is None or isinstance(value, str) else canonical_json(value)
