"""`agentv generate evals`: read the records, generate cases from each, write an eval file or append to one."""

import os
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

import click
from msgspec import Struct
from msgspec.structs import replace

from agentv.cli.evals.generating import (
    EXIT_NOTHING,
    GenerateOptions,
    Report,
    Stopped,
    check_writable,
    make_setup,
    run_to_end,
    show_progress,
    show_requests,
)
from agentv.cli.evals.schema_files import EVAL_SCHEMA, SCHEMAS
from agentv.cli.terminal import own_stdout
from agentv.engine.generate.cases import PLACEHOLDER, NewCases, make_case_tasks, make_cases, new_suite
from agentv.engine.generate.generation import CASE_VARIABLES, GenerationSetup, cases_prompt, generate
from agentv.engine.planning.inputs import TargetsLoader, load_project_parts
from agentv.loading.edit.cases_file import CasesFile, open_cases
from agentv.loading.files.atomic_write import replace_content, write_text
from agentv.loading.files.places import find_home, find_repository_root
from agentv.loading.files.text import shown
from agentv.loading.models.reader import raise_errors
from agentv.loading.project import load_project
from agentv.loading.suites.recorded import read_records_of
from agentv.loading.suites.suites import load_suite, read_suite
from agentv.registry import Specs
from agentv.reports.text.amounts import count_text
from agentv.reports.text.yaml_text import yaml_item
from agentv.types.errors import ConfigError
from agentv.types.json_value import JsonObject

_SUFFIXES = (".yaml", ".yml", ".jsonl")


class Source(Struct, frozen=True):
    """The input and output files: at most `count` cases from each of the first `limit` records."""

    data: Path
    out: Path
    count: int
    limit: int | None = None
    append: bool = False


def generate_evals(source: Source, options: GenerateOptions) -> int:
    """Write cases generated from a file's records; return the exit code. Output of targets goes to standard error."""
    with own_stdout() as stdout:
        _check(source)
        specs, _ = load_project_parts([source.out.parent])
        file, target = _existing(source, specs)
        tasks = make_case_tasks(islice(read_records_of(source.data), source.limit), count=source.count)
        if not tasks:
            click.echo(f"{source.data} has no records", err=True)
            return EXIT_NOTHING
        setup = replace(_setup(source, target, options, specs), on_done=show_progress(len(tasks), "record"))
        if options.dry_run:
            return show_requests(tasks, setup, options, stdout)
        try:
            made = run_to_end(generate(tasks, setup))
        except Stopped as stop:
            return stop.report(source.out)
        new = make_cases(made, file.cases)
        report = Report(
            source.out,
            options,
            "cases",
            new.by_record,
            to_json=list,
            describe=lambda cases: count_text(len(cases), "case"),
            note=_note(new),
        )
        if report.writes:
            _write(source, file, new.cases, specs)
        return report.show(stdout)


def _check(source: Source) -> None:
    """Refuse an output that cannot be written, before any paid call. Raises UsageError and ConfigError."""
    out = source.out
    if out.suffix not in _SUFFIXES:
        raise click.UsageError(f"cannot determine the format of {out}; its name must end in {', '.join(_SUFFIXES)}")
    if not out.parent.is_dir():
        raise ConfigError(f"folder {out.parent} does not exist")
    if out.exists() and out.samefile(source.data):
        raise click.UsageError("--in and --out are the same file")
    if out.exists() and not source.append:
        raise click.UsageError(f"{out} exists already; --append adds the new cases to it")
    check_writable(out)


def _existing(source: Source, specs: Specs) -> tuple[CasesFile, str | None]:
    """Return the file to append to, after checking that it can be appended to, and its target; or an empty file."""
    if not source.out.exists():
        return CasesFile(source.out, b"", ()), None
    target = load_suite(source.out, specs=specs).target
    file = open_cases(source.out)
    file.with_cases([PLACEHOLDER], [yaml_item(PLACEHOLDER)], specs)
    return file, target


def _setup(source: Source, target: str | None, options: GenerateOptions, specs: Specs) -> GenerationSetup:
    folder = source.out.parent
    known = TargetsLoader(options.run_options(), specs, Path.cwd(), os.environ).load_targets(folder)
    prompt = cases_prompt(options.template(CASE_VARIABLES, ("record",)))
    project = load_project(folder, find_repository_root(folder))
    return replace(
        make_setup(prompt, known, target, options, specs=specs),
        eval_dir=str(folder.resolve()),
        redact=project.redact,
        prices=project.prices,
    )


def _note(new: NewCases) -> str | None:
    if not new.repeated:
        return None
    return f"{count_text(new.repeated, 'case')} skipped as duplicates"


def _write(source: Source, file: CasesFile, cases: Sequence[JsonObject], specs: Specs) -> None:
    """Write or append to the file, after checking that the result is a valid suite."""
    out = source.out
    if file.data or out.suffix == ".jsonl":
        data = file.with_cases(cases, [yaml_item(case) for case in cases], specs)
        if file.data:
            replace_content(out, data, before=file.data)
            return
        text = data.decode()
    else:
        text = new_suite(cases, data=shown(source.data), schema=_schema(out))
        raise_errors(shown(out), read_suite(out, specs, content=text.encode()).problems)
    if out.exists():
        raise ConfigError(f"{out} was created by another process meanwhile; it was not changed")
    write_text(out, text)


def _schema(out: Path) -> str | None:
    """Return the path of the project's schema for editors, relative to the file's folder; None if there is none."""
    schema = find_home(out.parent) / SCHEMAS / EVAL_SCHEMA
    return Path(os.path.relpath(schema, out.parent.resolve())).as_posix() if schema.is_file() else None
