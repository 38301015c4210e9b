"""Differences between the setups of two runs: suites, targets, scripts, options, versions, code."""

from collections.abc import Iterator, Mapping

from msgspec import Struct
from msgspec.structs import replace

from agentv.scoring.comparison.sides import Side, evaluator_of
from agentv.scoring.comparison.suites import renamed_suites
from agentv.scoring.keys.identity import canonical_json
from agentv.types.json_value import JsonObject, JsonValue

_DIGEST_LENGTH = 12
_IGNORED_OPTIONS = ("name", "targets", "baseline", "gates")
"""Options that do not influence the results, or are compared as targets."""


class Circumstance(Struct, frozen=True):
    """A setting that differs between two runs, with its two values; None in a run without the setting."""

    name: str
    before: str | None
    after: str | None


def find_circumstances(before: Side, after: Side) -> tuple[Circumstance, ...]:
    """Return the settings that differ between two runs: those in run.json, and the evaluators that judged."""
    found = [*_plan_differences(before.run_json, after.run_json), *_evaluators(before, after)]
    return tuple(each for each in found if each.before != each.after)


def _plan_differences(before: JsonObject, after: JsonObject) -> Iterator[Circumstance]:
    if not before or not after:
        return
    old, new = _entry(before, "plan"), _entry(after, "plan")
    suites_before, suites_after = _suites(old), _suites(new)
    renamed = renamed_suites(suites_before, suites_after)
    yield from _named(
        "suite", {renamed.get(path, path): digest for path, digest in suites_before.items()}, suites_after
    )
    yield from _targets(_by_name(old), _by_name(new))
    yield from _named("script", _scripts(old), _scripts(new))
    yield from _named("option", _options(old), _options(new))
    for key in ("seed", "price_table_date", "python"):
        yield Circumstance(key.replace("_", " "), _text(old.get(key)), _text(new.get(key)))
    yield Circumstance("agentv", _text(before.get("agentv_version")), _text(after.get("agentv_version")))
    yield Circumstance("git commit", _commit(before), _commit(after))


def _named(kind: str, before: Mapping[str, JsonValue], after: Mapping[str, JsonValue]) -> Iterator[Circumstance]:
    for name in dict.fromkeys((*before, *after)):
        yield Circumstance(f"{kind} {name}", _text(before.get(name)), _text(after.get(name)))


def _targets(before: Mapping[str, JsonObject], after: Mapping[str, JsonObject]) -> Iterator[Circumstance]:
    """Yield all settings, target by target; single targets with different names are paired."""
    is_renamed = len(before) == len(after) == 1 and list(before) != list(after)
    if is_renamed:
        ((old_name, old_target),) = before.items()
        ((new_name, new_target),) = after.items()
        yield Circumstance("target", old_name, new_name)
        before, after = {new_name: old_target}, {new_name: new_target}
    for name in dict.fromkeys((*before, *after)):
        yield Circumstance(f"target {name}", _present(name in before), _present(name in after))
        if name in before and name in after:
            owner = "the target" if is_renamed else f"target {name}"
            old_target, new_target = before[name], after[name]
            settings = [
                {"provider": each.get("provider"), **_entry(each, "settings")} for each in (old_target, new_target)
            ]
            for each in _named("", *settings):
                yield replace(each, name=f"{each.name.strip()} of {owner}")


def _by_name(plan: JsonObject) -> dict[str, JsonObject]:
    targets = plan.get("targets")
    listed = targets if isinstance(targets, list | tuple) else ()
    return {str(each.get("name")): each for each in listed if isinstance(each, Mapping)}


def _suites(plan: JsonObject) -> dict[str, JsonValue]:
    suites = plan.get("suites")
    listed = suites if isinstance(suites, list | tuple) else ()
    return {
        str(each.get("path")): f"sha256 {str(each.get('sha256'))[:_DIGEST_LENGTH]}"
        for each in listed
        if isinstance(each, Mapping)
    }


def _scripts(plan: JsonObject) -> dict[str, JsonValue]:
    return {
        path: f"sha256 {str(digest)[:_DIGEST_LENGTH]}"
        for scripts in _entry(plan, "scripts").values()
        if isinstance(scripts, Mapping)
        for path, digest in scripts.items()
    }


def _options(plan: JsonObject) -> dict[str, JsonValue]:
    return {name: value for name, value in _entry(plan, "options").items() if name not in _IGNORED_OPTIONS}


def _commit(run_json: JsonObject) -> str | None:
    git = _entry(run_json, "git")
    commit = git.get("commit")
    return None if commit is None else f"{str(commit)[:_DIGEST_LENGTH]}{' with changes' if git.get('dirty') else ''}"


def _evaluators(before: Side, after: Side) -> Iterator[Circumstance]:
    """Yield the type of each evaluator in both runs; types that are not known in one of them do not differ."""
    old, new = _types(before), _types(after)
    for name in dict.fromkeys((*old, *new)):
        is_known = "" not in (old.get(name), new.get(name))
        if is_known or name not in old or name not in new:
            yield Circumstance(f"evaluator {name}", _type_text(old.get(name)), _type_text(new.get(name)))


def _types(side: Side) -> dict[str, str]:
    """Return the types of the evaluators by name, "" for one whose type is not known."""
    judged = {name: "" for measure in side.measures if (name := evaluator_of(measure)) is not None}
    return judged | {name: ", ".join(sorted(types)) for name, types in side.evaluator_types.items()}


def _type_text(type_: str | None) -> str | None:
    return "present" if type_ == "" else type_


def _present(is_present: bool) -> str | None:  # noqa: FBT001 - the only argument
    return "present" if is_present else None


def _entry(record: JsonObject, key: str) -> JsonObject:
    value = record.get(key)
    return value if isinstance(value, Mapping) else {}


def _text(value: JsonValue) -> str | None:
    return value if value is None or isinstance(value, str) else canonical_json(value)
