"""The eval file that new cases are written to: a new one, or one that gets more cases."""

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import click
from msgspec import Struct

from agentv.cli.evals.schema import EVAL_SCHEMA, SCHEMAS_FOLDER
from agentv.engine.generate import PLACEHOLDER_CASE, new_suite
from agentv.loading.edit.cases_file import CasesFile, open_cases
from agentv.loading.files.places import find_home
from agentv.loading.files.text import replace_content, shown, write_text
from agentv.loading.models.reader import raise_errors
from agentv.loading.suites.suites import load_suite, read_suite
from agentv.registry import Specs
from agentv.reports.text.yaml_text import yaml_item
from agentv.types.errors import ConfigError
from agentv.types.json_value import JsonObject, JsonValue

_SUFFIXES = (".yaml", ".yml", ".jsonl")


class CasesOutput(Struct, frozen=True):
    """The file of `--out`, and whether cases may be added to one that exists."""

    path: Path
    append: bool = False
    allow_paths: tuple[str, ...] = ()

    def check(self, inputs: Iterable[Path], option: str) -> None:
        """Raise UsageError or ConfigError for an output that cannot be written, or that is one of the inputs."""
        if self.path.suffix not in _SUFFIXES:
            raise click.UsageError(
                f"cannot determine the format of {self.path}; its name must end in {', '.join(_SUFFIXES)}"
            )
        if not self.path.parent.is_dir():
            raise ConfigError(f"folder {self.path.parent} does not exist")
        if self.path.exists() and any(each.exists() and self.path.samefile(each) for each in inputs):
            raise click.UsageError(f"{option} and --out are the same file")
        if self.path.exists() and not self.append:
            raise click.UsageError(f"{self.path} exists already; --append adds the new cases to it")
        check_writable(self.path)

    def open(self, specs: Specs) -> tuple[CasesFile, str | None]:
        """Return the cases and the target of the file; none if it does not exist.

        Raises ConfigError for a file that cases cannot be added to.
        """
        if not self.path.exists():
            return CasesFile(self.path, b"", ()), None
        target = load_suite(self.path, specs=specs, allow_paths=self.allow_paths).target
        file = open_cases(self.path, specs, allow_paths=self.allow_paths)
        file.with_cases([PLACEHOLDER_CASE], [yaml_item(PLACEHOLDER_CASE)], specs)
        return file, target

    def write(
        self,
        file: CasesFile,
        cases: Sequence[JsonObject],
        specs: Specs,
        *,
        data: str,
        other_keys: Mapping[str, JsonValue] | None = None,
    ) -> None:
        """Write or append to the file, after checking that the result is a valid suite.

        `data` names where the cases come from. A new YAML file also gets the `other_keys`.
        """
        if file.data or self.path.suffix == ".jsonl":
            content = file.with_cases(cases, [yaml_item(case) for case in cases], specs)
            if file.data:
                replace_content(self.path, content, before=file.data)
                return
            text = content.decode()
        else:
            text = self.new_text(cases, data=data, other_keys=other_keys)
            raise_errors(shown(self.path), read_suite(self.path, specs, content=text.encode()).problems)
        if self.path.exists():
            raise ConfigError(f"{self.path} was created by another process meanwhile; it was not changed")
        write_text(self.path, text)

    def new_text(
        self, cases: Sequence[JsonObject], *, data: str, other_keys: Mapping[str, JsonValue] | None = None
    ) -> str:
        """Return the text of a new YAML file."""
        return new_suite(cases, data=data, schema=_editor_schema(self.path), other_keys=other_keys)


def check_writable(path: Path) -> None:
    """Raise ConfigError when a file cannot be written, before any paid call."""
    for place in (path, path.resolve().parent):
        if place.exists() and not os.access(place, os.W_OK):
            raise ConfigError(f"{place} cannot be written; no request was sent")


def _editor_schema(out: Path) -> str | None:
    """Return the path of the project's JSON Schema for eval files, relative to the file's folder; None without one."""
    schema = find_home(out.parent) / SCHEMAS_FOLDER / EVAL_SCHEMA
    return Path(os.path.relpath(schema, out.parent.resolve())).as_posix() if schema.is_file() else None
