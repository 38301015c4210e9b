"""`agentv plugins`: list evaluators, providers, report formats and stores with their settings."""

import json
import types
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union, get_args, get_origin

import click

from agentv.types.structs import StructField, has_fields, names_of_fields, struct_fields

if TYPE_CHECKING:
    from agentv.registry import Registry, Spec


SCHEMA = "agentv-plugins-1"
_SCALAR_NAMES: Mapping[object, str] = {str: "string", bool: "true or false", int: "whole number", float: "number"}
_COUNTABLE = ("string", "whole number", "number", "mapping", "scalar")


@click.command()
@click.argument("names", nargs=-1)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object with all settings.")
@click.option("--import", "imports_plugins", is_flag=True, help="Also import and list the plug-ins of .agentv.yaml.")
def command(names: tuple[str, ...], *, as_json: bool, imports_plugins: bool) -> None:
    """List evaluators, providers, report formats and stores; with NAMES, show their settings."""
    project_plugins = _project_plugins()
    registries = _load_registries(project_plugins if imports_plugins else ())
    not_imported = () if imports_plugins else project_plugins
    named = _find_named(registries, names, not_imported)
    broken = [str(error) for _, registry in registries for error in registry.broken.values()]
    if as_json:
        described = {
            kind: [
                {**describe(spec), "brought_by": _package_and_version(spec, registry)}
                for spec in _select(registry, names)
            ]
            for kind, registry in registries
        }
        record = {"schema": SCHEMA, **described, "broken": broken, "not_imported": list(not_imported)}
        click.echo(json.dumps(record, indent=2, ensure_ascii=False))
    elif names:
        click.echo("\n\n".join(render_settings(spec) for spec in named))
    else:
        click.echo("\n\n".join(render_list(kind, registry) for kind, registry in registries if list(registry)))
        for message in broken:
            click.echo(f"\nnot usable: {message}")
        for plugin in not_imported:
            click.echo(f"\nnot imported: {plugin} (--import lists its plug-ins)")
        click.echo("\nShow the settings of a plug-in: agentv plugins NAME")


def describe(spec: "Spec") -> dict[str, Any]:  # plain JSON for printing
    """Return a plug-in as JSON: its properties, and each setting with type and default."""
    return {
        "name": spec.name,
        "aliases": list(spec.aliases),
        "summary": spec.summary,
        # The same keys for each kind of plug-in.
        "cost": getattr(spec, "cost", "free"),
        "deterministic": getattr(spec, "is_deterministic", True),
        "settings": [_describe_setting(field) for field in _settings_of(spec)],
    }


def render_list(kind: str, registry: "Registry[Any]") -> str:
    """Return the heading `kind` and one line for each plug-in of a registry."""
    rows = [
        (", ".join((spec.name, *spec.aliases)), f"{_with_cost(spec)}{_package_suffix(spec, registry)}")
        for spec in registry
    ]
    width = max((len(names) for names, _ in rows), default=0)
    return "\n".join([kind, *(f"  {names:<{width}}  {summary}" for names, summary in rows)])


def render_settings(spec: "Spec") -> str:
    """Return a plug-in's name and summary, and one line for each of its settings."""
    rows = [_describe_setting(field) for field in _settings_of(spec)]
    title = f"{', '.join((spec.name, *spec.aliases))}: {_with_cost(spec)}"
    if not rows:
        return f"{title}\n  no settings of its own"
    widths = [max(len(row[column]) for row in rows) for column in ("name", "type", "default")]
    lines = (
        f"  {row['name']:<{widths[0]}}  {row['type']:<{widths[1]}}  {row['default']:<{widths[2]}}  {row['help']}"
        for row in rows
    )
    return "\n".join([title, *(line.rstrip() for line in lines)])


def _package_and_version(spec: "Spec", registry: "Registry[Any]") -> str | None:
    """Return the package of a plug-in with its version; None for built-in plug-ins and plug-ins of the project."""
    return registry.packages.get(spec.name)


def _package_suffix(spec: "Spec", registry: "Registry[Any]") -> str:
    package = _package_and_version(spec, registry)
    return f"  [{package}]" if package else ""


def _with_cost(spec: "Spec") -> str:
    summary = spec.summary.rstrip(".")
    return f"{summary} (may cost money)" if getattr(spec, "cost", "free") == "paid" else summary


def _project_plugins() -> tuple[str, ...]:
    """Return the `plugins` of .agentv.yaml, which are not imported here."""
    from pathlib import Path

    from agentv.loading.files.places import find_repository_root
    from agentv.loading.project import load_project

    here = Path.cwd()
    return load_project(here, find_repository_root(here)).plugins


def _load_registries(plugins: Sequence[str]) -> Sequence[tuple[str, "Registry[Any]"]]:
    from agentv.engine.plugins.loading import load_specs

    specs = load_specs(plugins)
    registries = (
        ("evaluators", specs.evaluators),
        ("providers", specs.providers),
        ("reports", specs.reports),
        ("stores", specs.stores),
    )
    for _, registry in registries:
        registry.load_all()
    return registries


def _select(registry: "Registry[Any]", names: tuple[str, ...]) -> "list[Spec]":
    return [spec for spec in registry if not names or {spec.name, *spec.aliases} & set(names)]


def _find_named(
    registries: Sequence[tuple[str, "Registry[Any]"]], names: tuple[str, ...], not_imported: Sequence[str]
) -> "list[Spec]":
    """Return the plug-ins of these names, in the given order; plug-ins of several kinds may have the same name.

    Raises ConfigError for an unknown name.
    """
    from agentv.types.errors import ConfigError, UnknownNameError

    found = []
    for name in names:
        specs = [registry.get(name) for _, registry in registries if name in registry]
        if not specs and not_imported:
            raise ConfigError(f"unknown plug-in {name!r}; if {', '.join(not_imported)} defines it, add --import")
        if not specs:
            known = [each for _, registry in registries for each in registry.canonical_names()]
            aliases = [alias for _, registry in registries for alias in registry.aliases]
            raise UnknownNameError("plug-in", name, known=known, aliases=aliases)
        found += specs
    return found


def _settings_of(spec: "Spec") -> list[StructField]:
    settings = spec.load_settings()
    # A plug-in's own settings come before those that it shares with others.
    return sorted(struct_fields(settings), key=lambda field: field.name not in settings.__annotations__)


def _describe_setting(field: StructField) -> dict[str, str]:
    return {
        "name": field.name,
        "type": describe_type(field.type),
        "default": "required" if field.is_required else _describe_default(field.default),
        "help": field.description or "",
    }


def _describe_default(default: Any) -> str:
    if default is None:
        return "none"
    if has_fields(default):
        values = {name: getattr(default, name) for name in names_of_fields(type(default))}
        default = {name: value for name, value in values.items() if value}
    if isinstance(default, Mapping | tuple) and not default:
        return "empty"
    return json.dumps(default, ensure_ascii=False, default=str)


def describe_type(hint: Any) -> str:  # type hints have no common type
    """Return the description of a type for users who write YAML."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return describe_type(arguments[0])
    if origin is Literal:
        return " | ".join(str(argument) for argument in arguments)
    if origin in (Union, types.UnionType):
        return _describe_choice([argument for argument in arguments if argument is not type(None)])
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return "mapping"
    if origin in (tuple, list) or (isinstance(origin, type) and issubclass(origin, Sequence)):
        return f"list of {_plural(describe_type(arguments[0]))}" if arguments else "list"
    if hint in _SCALAR_NAMES:
        return _SCALAR_NAMES[hint]
    return "mapping" if has_fields(hint) else "any"


def _plural(kind: str) -> str:
    return f"{kind}s" if kind in _COUNTABLE else kind


def _describe_choice(hints: list[Any]) -> str:  # type hints have no common type
    if set(_SCALAR_NAMES) <= set(hints):
        hints = ["scalar", *(hint for hint in hints if hint not in _SCALAR_NAMES)]
    parts = dict.fromkeys(hint if isinstance(hint, str) else describe_type(hint) for hint in hints)
    # Values that exist only in Python (a function, an object) cannot be written in a file.
    return " or ".join(part for part in parts if part != "any" or len(parts) == 1)
