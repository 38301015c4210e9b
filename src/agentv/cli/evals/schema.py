"""`agentv schema`: print or write the JSON Schema of a kind of file, or write the schemas that editors use."""

import json
from collections.abc import Mapping
from pathlib import Path

import click

from agentv.types.errors import StorageError

SCHEMAS_FOLDER = "schemas"
EVAL_SCHEMA = "eval.schema.json"
_SCHEMA_FILES = {"eval": EVAL_SCHEMA, "targets": "targets.schema.json"}
_GITIGNORE = "# For editors on this machine; recreate with `agentv schema --write`.\n*\n"


@click.command()
@click.argument("kind", required=False)
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="Write the schema to this file.")
@click.option("--write", is_flag=True, help="Write the schemas for editors into .agentv/schemas/.")
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="Print one JSON object with the schema, or with the names of the written files.",
)
def command(kind: str | None, output: Path | None, *, write: bool, as_json: bool) -> None:
    """Print the JSON Schema of a kind of file.

    KIND is eval (eval files; the default), targets (targets files), config (.agentv.yaml), evaluation (the file for
    `agentv score --config`), or results (the lines of a file written by `agentv run -o results.jsonl`).
    """
    if write:
        if kind or output:
            raise click.UsageError("--write cannot be combined with KIND or --output")
        _report_written(_write_all(), as_json=as_json)
    else:
        _write_one(kind or "eval", output, as_json=as_json)


def _write_all() -> list[Path]:
    """Write the schemas for editors into the project's folder; return the files. Raises StorageError."""
    from agentv.loading.files.places import find_home
    from agentv.loading.files.text import write_text

    folder = find_home(Path.cwd()) / SCHEMAS_FOLDER
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(f"cannot create {folder}: {error.strerror}") from None
    files = schema_files()
    for name, text in files.items():
        write_text(folder / name, text)
    return [folder / name for name in files]


def _report_written(paths: list[Path], *, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps({"schema": "agentv-schema-1", "written": [str(path) for path in paths]}))
        return
    for path in paths:
        click.echo(f"Wrote {path}")


def _write_one(kind: str, output: Path | None, *, as_json: bool) -> None:
    from agentv.engine.plugins.loading import load_specs
    from agentv.loading.files.text import write_text
    from agentv.loading.schemas import json_schema

    schema = json_schema(kind, load_specs())
    if output is not None:
        write_text(output, json.dumps(schema, indent=2) + "\n")
    if as_json:
        record = {"schema": "agentv-schema-1", "kind": kind, "file": str(output) if output else None}
        click.echo(json.dumps({**record, "json_schema": schema}))
    elif output is None:
        click.echo(json.dumps(schema, indent=2))
    else:
        click.echo(f"Wrote {output}. To use it in editors, start files with:\n# yaml-language-server: $schema={output}")


def schema_files() -> Mapping[str, str]:
    """Return the files of the schemas folder, text by name: the schemas, and a .gitignore that excludes them."""
    from agentv.engine.plugins.loading import load_specs
    from agentv.loading.schemas import json_schema

    specs = load_specs()
    schemas = {name: json.dumps(json_schema(kind, specs), indent=2) + "\n" for kind, name in _SCHEMA_FILES.items()}
    return {".gitignore": _GITIGNORE, **schemas}
