"""`agentv generate`: generate rubrics for cases, or cases from documents and logged questions, with a model."""

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Coroutine, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Generic, TextIO, TypeVar, get_args

import click
from click.core import ParameterSource
from msgspec import Struct
from msgspec.structs import replace

from agentv.cli.evals.cases_output import CasesOutput, check_writable
from agentv.cli.options import ALLOW_PATH_OPTION, Span
from agentv.cli.running.traces import IDLE_OPTION, UNIT_OPTION
from agentv.cli.terminal import own_stdout
from agentv.engine.criteria.logged_cases import Order
from agentv.engine.generate import (
    CASE_VARIABLES,
    RUBRIC_VARIABLES,
    Generated,
    GenerationPrompt,
    GenerationSetup,
    GenerationTask,
    NewCases,
    cases_prompt,
    generate,
    make_case_tasks,
    make_cases,
    make_request,
    make_rubrics_job,
    request_rubrics,
    rubrics_prompt,
    rubrics_to_json,
    template_warnings,
    with_rubrics,
)
from agentv.engine.planning.inputs import SuiteInput, TargetsLoader, load_inputs, load_project_parts
from agentv.engine.planning.selection import refuse_unmatched, select_cases
from agentv.engine.planning.targets import KnownTargets
from agentv.execution.processes.live_trees import kill_all
from agentv.loading.edit.cases_file import open_cases
from agentv.loading.files.places import find_eval_files, find_home, find_repository_root
from agentv.loading.files.text import read_text, replace_content, shown
from agentv.loading.project import load_project
from agentv.loading.suites.recorded import read_records_of
from agentv.registry import Specs
from agentv.reports.text.amounts import count_text, money_text, tokens_text
from agentv.reports.text.printable import one_line, printable, printable_json
from agentv.scoring.gates.run_verdict import SIGNALLED
from agentv.types.cases import BrokenCase, EvalCase, EvalSuite
from agentv.types.errors import EvalFileError
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.messages_json import pretty_json
from agentv.types.run_options import RunOptions
from agentv.types.usage import total_usage

T = TypeVar("T")
EXIT_NOTHING = 5
SCHEMA = "agentv-generate-1"


class GenerateOptions(Struct, frozen=True):
    """The options that `agentv generate evals` and `agentv generate rubrics` share."""

    target: str | None = None
    targets_file: str | None = None
    prompt_path: Path | None = None
    concurrency: int = 4
    keep_going: bool = False
    dry_run: bool = False
    as_json: bool = False
    allow_paths: tuple[str, ...] = ()

    def run_options(self, case_globs: tuple[str, ...] = ()) -> RunOptions:
        """Return the options with which a run finds the same target and cases."""
        targets = (self.target,) if self.target else ()
        return RunOptions(
            targets=targets, targets_file=self.targets_file, case_globs=case_globs, allow_paths=self.allow_paths
        )

    def template(self, known: Sequence[str], needed: Sequence[str]) -> str | None:
        """Return the user's prompt template, None without one. Print warnings about its variables.

        It may contain the variables in `known`, and should contain those in `needed`.
        """
        if self.prompt_path is None:
            return None
        text = read_text(self.prompt_path)
        for warning in template_warnings(text, known=known, needed=needed):
            click.echo(f"warning: {self.prompt_path}: {warning}", err=True)
        return text


def make_setup(
    prompt: GenerationPrompt, known: KnownTargets, suite_target: str | None, options: GenerateOptions, *, specs: Specs
) -> GenerationSetup:
    """Return the settings of the calls. Their target is that of `--target`, else `suite_target`. Raises TargetError."""
    return GenerationSetup(
        prompt=prompt,
        target=known.choose(options.target or suite_target),
        known=known,
        specs=specs,
        home=str(find_home(Path.cwd())),
        eval_dir=str(Path.cwd()),
        concurrency=options.concurrency,
        stops_on_failure=not options.keep_going,
    )


def progress_printer(total: int, noun: str) -> Callable[[int], None]:
    """Return a callback that shows the number of finished items on a terminal, and does nothing elsewhere."""
    if not sys.stderr.isatty():
        return lambda _done: None

    def show(done: int) -> None:
        erase_line = "\r\x1b[K"
        line = f"\r{done} of {count_text(total, noun)}" if done < total else erase_line
        click.echo(line, nl=False, err=True)

    return show


class Stopped(Exception):  # noqa: N818 - not an error
    """The command received the signal `number`."""

    def __init__(self, number: int) -> None:
        self.number = number
        super().__init__(signal.Signals(number).name)

    def report(self, path: Path) -> int:
        """Print which signal stopped the command; return the exit code."""
        click.echo(f"\nstopped by {self}; {path} is unchanged", err=True)
        return SIGNALLED + self.number


def run_to_end(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end. Raises Stopped after a signal, which cancels all calls and child processes."""
    received_signals: list[int] = []

    async def watched() -> T:
        task = asyncio.ensure_future(work)
        loop = asyncio.get_running_loop()

        def stop(number: int) -> None:
            if received_signals:  # the second signal kills all children and exits at once
                try:
                    kill_all()
                finally:
                    os._exit(SIGNALLED + number)
            received_signals.append(number)
            task.cancel()

        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, stop, number)
        return await task

    try:
        return asyncio.run(watched())
    except asyncio.CancelledError:
        raise Stopped(received_signals[0] if received_signals else signal.SIGINT) from None


def show_requests(
    tasks: Sequence[GenerationTask[Any]], setup: GenerationSetup, options: GenerateOptions, stdout: TextIO
) -> int:
    """Print the requests without sending them; return the exit code. `NONCE` replaces the random nonce of a request."""
    requests = [make_request(task, setup, "NONCE") for task in tasks]
    if options.as_json:
        listed: list[JsonValue] = [
            {"id": each.eval_case_id, "system": each.system_prompt, "user": each.question} for each in requests
        ]
        record: JsonObject = {"schema": SCHEMA, "dry_run": True, "target": setup.target.name, "requests": listed}
        click.echo(printable_json(pretty_json(record)), file=stdout)
        return 0
    for each in requests:
        parts = (f"==== {one_line(each.eval_case_id)}", each.system_prompt, each.question)
        click.echo("\n\n".join(printable(part) for part in parts if part) + "\n", file=stdout)
    click.echo(f"{count_text(len(requests), 'request')} to target {setup.target.name!r}; none was sent", file=stdout)
    return 0


EXIT_FAILED = 3
_MAX_NAMES = 10
"""The number of failed items that the last line names; all of them have an error line above."""


class Report(Struct, Generic[T], frozen=True):
    """The outcome of a command that generates values."""

    path: Path
    options: GenerateOptions
    noun: str
    """What was generated: `cases` or `rubrics`."""
    generated: Sequence[Generated[T]]
    to_json: Callable[[T], JsonValue]
    """Formats one generated value as JSON."""
    describe: Callable[[T], str]
    """Formats one generated value as text."""
    skipped: tuple[str, ...] = ()
    """The ids of the cases that were not sent."""
    note: str | None = None

    @property
    def failed(self) -> list[Generated[T]]:
        """The items whose generation failed."""
        return [each for each in self.generated if each.failure is not None]

    @property
    def is_written(self) -> bool:
        """True if the file is written: all items succeeded, or some did and `--keep-going` was given."""
        return any(each.value for each in self.generated) and (not self.failed or self.options.keep_going)

    def show(self, stdout: TextIO) -> int:
        """Print the report; return the exit code."""
        if self.options.as_json:
            click.echo(printable_json(pretty_json(self._record())), file=stdout)
        else:
            for line in self._lines():
                click.echo(line, file=stdout)
        if self.failed:
            click.echo(self._failures_text(), err=True)
        return EXIT_FAILED if self.failed else 0

    def _lines(self) -> list[str]:
        width = max((len(one_line(id_)) for id_ in (*self.skipped, *(each.id for each in self.generated))), default=0)
        lines = [
            f"{one_line(each.id):<{width}}  {self.describe(each.value)}"
            for each in self.generated
            if each.value is not None
        ]
        lines += [f"{one_line(id_):<{width}}  already has {self.noun}" for id_ in self.skipped]
        lines += [self.note] if self.note else []
        if self.is_written:
            lines.append(f"Wrote {self.path}{self._usage_text()}")
        elif not self.failed:
            lines.append(f"nothing to do: {self.path} is unchanged")
        return lines

    def _usage_text(self) -> str:
        usage, costs = total_usage(each.usage for each in self.generated), [each.cost_usd for each in self.generated]
        known = [cost for cost in costs if cost is not None]
        parts = [f"{tokens_text(usage.total)} tokens"] if usage is not None else []
        parts += [money_text(sum(known))] if known and len(known) == len(costs) else []
        return f" ({', '.join(parts)})" if parts else ""

    def _failures_text(self) -> str:
        """Return which items failed, and the consequence for the file."""
        reasons = [f"{one_line(each.id)}: {one_line(each.failure.message)}" for each in self.failed if each.failure]
        not_sent = sum(each.value is None and each.failure is None for each in self.generated)
        names = ", ".join(one_line(each.id) for each in self.failed[:_MAX_NAMES])
        names += ", …" if len(self.failed) > _MAX_NAMES else ""
        rest = f", {not_sent} not attempted" if not_sent else ""
        end = "the others were written" if self.is_written else "nothing was written"
        hint = "" if self.options.keep_going else "; use --keep-going to write the rest"
        counts = f"{len(self.failed)} of {len(self.generated)} failed ({names}){rest}"
        return "\n".join(
            [*(f"error: {reason}" for reason in reasons), f"{counts}: {end}{hint}. Exit code {EXIT_FAILED}."]
        )

    def _record(self) -> dict[str, JsonValue]:
        usage = total_usage(each.usage for each in self.generated)
        return {
            "schema": SCHEMA,
            "file": str(self.path),
            "written": self.is_written,
            self.noun: [{"id": each.id, self.noun: self.to_json(each.value)} for each in self.generated if each.value],
            "failed": [
                {"id": each.id, "kind": each.failure.kind, "message": each.failure.message}
                for each in self.generated
                if each.failure
            ],
            "not_asked": [each.id for each in self.generated if each.value is None and each.failure is None],
            "skipped": list(self.skipped),
            "note": self.note,
            "tokens": None if usage is None else usage.total,
        }


class EvalsOptions(Struct, frozen=True):
    """The options of `agentv generate evals` alone."""

    data: Path
    out: Path
    count: int
    """The highest number of cases from each record."""
    limit: int | None = None
    """The number of records to use, from the first; None for all."""
    append: bool = False


def generate_evals(evals_options: EvalsOptions, options: GenerateOptions) -> int:
    """Write cases generated from a file's records; return the exit code. Output of targets goes to standard error."""
    with own_stdout() as stdout:
        output = CasesOutput(evals_options.out, evals_options.append, options.allow_paths)
        output.check([evals_options.data], "--in")
        specs, _ = load_project_parts([evals_options.out.parent])
        file, target = output.open(specs)
        tasks = make_case_tasks(
            islice(read_records_of(evals_options.data), evals_options.limit), count=evals_options.count
        )
        if not tasks:
            click.echo(f"{evals_options.data} has no records", err=True)
            return EXIT_NOTHING
        setup = replace(
            _cases_setup(evals_options, target, options, specs), on_done=progress_printer(len(tasks), "record")
        )
        if options.dry_run:
            return show_requests(tasks, setup, options, stdout)
        try:
            made = run_to_end(generate(tasks, setup))
        except Stopped as stop:
            return stop.report(evals_options.out)
        new = make_cases(made, file.cases)
        report = Report(
            evals_options.out,
            options,
            "cases",
            new.by_record,
            to_json=list,
            describe=lambda cases: count_text(len(cases), "case"),
            note=_duplicates_note(new),
        )
        if report.is_written:
            output.write(file, new.cases, specs, data=shown(evals_options.data))
        return report.show(stdout)


def _cases_setup(
    evals_options: EvalsOptions, target: str | None, options: GenerateOptions, specs: Specs
) -> GenerationSetup:
    folder = evals_options.out.parent
    known = TargetsLoader(options.run_options(), specs, Path.cwd(), os.environ).load_targets(folder)
    prompt = cases_prompt(options.template(CASE_VARIABLES, ("record",)))
    project = load_project(folder, find_repository_root(folder))
    return replace(
        make_setup(prompt, known, target, options, specs=specs),
        eval_dir=str(folder.resolve()),
        redact=project.redact,
        prices=project.prices,
    )


def _duplicates_note(new: NewCases) -> str | None:
    if not new.repeated:
        return None
    return f"{count_text(new.repeated, 'case')} skipped as duplicates"


def generate_rubrics(path: Path, case_globs: tuple[str, ...], options: GenerateOptions) -> int:
    """Add rubrics to a file's cases; return the exit code. Output of targets goes to standard error."""
    with own_stdout() as stdout:
        run_options = options.run_options(case_globs)
        cwd = Path.cwd()
        inputs = load_inputs(find_eval_files([path], cwd=cwd), run_options, cwd=cwd, env=os.environ)
        suite, file = inputs.suites[0].suite, open_cases(path, inputs.specs, allow_paths=options.allow_paths)
        refuse_unmatched([suite], run_options)
        cases, positions = _readable_cases(suite), select_cases(suite, run_options).positions
        chosen = [index for index in range(len(cases)) if positions is None or index in positions]
        if not chosen:
            click.echo(f"no case of {path} matches", err=True)
            return EXIT_NOTHING
        job = make_rubrics_job(file, cases, chosen, inputs.specs)
        setup = _rubrics_setup(inputs.suites[0], options, inputs.specs, len(job.tasks))
        if options.dry_run:
            return show_requests(tuple(job.tasks.values()), setup, options, stdout)
        check_writable(path)
        try:
            made = run_to_end(request_rubrics(job, setup)) if job.tasks else []
        except Stopped as stop:
            return stop.report(path)
        report = Report(
            path,
            options,
            "rubrics",
            made,
            to_json=rubrics_to_json,
            describe=lambda items: count_text(len(items), "requirement"),
            skipped=job.skipped,
        )
        if report.is_written:
            replace_content(path, with_rubrics(job, made, inputs.specs), before=file.data)
        return report.show(stdout)


def _rubrics_setup(item: SuiteInput, options: GenerateOptions, specs: Specs, total: int) -> GenerationSetup:
    prompt = rubrics_prompt(options.template(RUBRIC_VARIABLES, ("question", "expected_outcome")))
    setup = make_setup(prompt, item.known, item.suite.target, options, specs=specs)
    return replace(
        setup,
        eval_dir=item.suite.base_dir,
        timeout_s=item.suite.timeout_s,
        redact=item.suite.redact,
        prices=item.suite.prices,
        on_done=progress_printer(total, "case"),
    )


def _readable_cases(suite: EvalSuite) -> list[EvalCase]:
    """Return all cases. Raises EvalFileError when one of them cannot be read."""
    cases = list(suite.cases)
    problems = [problem for case in cases if isinstance(case, BrokenCase) for problem in case.problems]
    if problems:
        raise EvalFileError(suite.path, problems)
    return [case for case in cases if isinstance(case, EvalCase)]


_EXISTING = click.Path(exists=True, dir_okay=False, path_type=Path)

_SHARED_OPTIONS = (
    click.option(
        "--prompt-path", type=_EXISTING, metavar="FILE", help="Prompt template to use instead of the built-in one."
    ),
    click.option(
        "--concurrency", type=click.IntRange(min=1), default=4, show_default=True, metavar="N", help="Concurrent calls."
    ),
    click.option("--keep-going", is_flag=True, help="Continue after failures, and write what succeeded."),
    click.option("--dry-run", is_flag=True, help="Print the requests without sending them."),
    click.option("--json", "as_json", is_flag=True, help="Print one JSON object."),
    ALLOW_PATH_OPTION,
)


def _with_shared_options(eval_file: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that adds the shared options. `eval_file` is the name of the file to write, for the help."""
    target = click.option(
        "--target",
        metavar="NAME",
        help=f"Target that does the writing; use a strong model (default: the target of `agentv run {eval_file}`).",
    )
    targets_file = click.option(
        "--targets-file",
        "--targets",
        "targets_file",
        metavar="FILE",
        help=f"Targets file or folder (default: nearest to {eval_file}).",
    )

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed((target, targets_file, *_SHARED_OPTIONS)):
            function = option(function)
        return function

    return decorate


@click.group()
def command() -> None:
    """Let a model write cases (from documents or logged questions), rubrics (for existing cases) or failure categories.

    A rubric is a list of requirements by which a model judges the answer to a case.
    """


@command.command("rubrics")
@click.argument("file", type=_EXISTING)
@click.option("--case", "case_globs", multiple=True, metavar="GLOB", help="Only cases whose id matches; repeatable.")
@_with_shared_options("FILE")
def rubrics(file: Path, case_globs: tuple[str, ...], **given: Any) -> int:
    """Add rubrics to the cases of FILE that have none.

    Everything else in FILE stays unchanged, including comments and quotes. If the model fails on a case,
    FILE does not change, unless --keep-going is given. Without --target, the rubrics are written by the target that
    `agentv run FILE` evaluates. This target then sets the requirements for its own answers.

    Exit codes: 0 done, 3 generation failed, 4 invalid usage or files, 5 no case matches.
    """
    return generate_rubrics(file, case_globs, GenerateOptions(**given))


@command.command("evals")
@click.argument("more", nargs=-1, metavar="")
@click.option("--in", "data", type=_EXISTING, metavar="FILE", help="Documents or logged questions.")
@click.option(
    "--from-traces",
    "traces",
    multiple=True,
    metavar="FILE...",
    help="Make cases of logged answers (traces, transcripts, logs; also folders), without a model.",
)
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    required=True,
    metavar="OUT",
    help="Eval file to write (.yaml, .yml or .jsonl).",
)
@click.option(
    "--count",
    type=click.IntRange(1, 50),
    default=3,
    show_default=True,
    metavar="N",
    help="Maximum number of cases per record.",
)
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    metavar="N",
    help="Use only the first N records; with --from-traces: write at most N cases.",
)
@click.option("--append", is_flag=True, help="If OUT exists, add the cases to it.")
@_with_shared_options("OUT")
@click.option(
    "--expected",
    type=click.Choice(["recorded", "none"]),
    help="From traces: use the recorded answer as reference, or none (default: recorded; with --failed: none).",
)
@click.option(
    "--trajectory",
    type=click.Choice(get_args(Order)),
    metavar="MODE",
    help=f"From traces: expect the recorded tool calls, in this mode: {', '.join(get_args(Order))}.",
)
@click.option("--with-system", "keeps_system", is_flag=True, help="From traces: keep recorded system prompts.")
@click.option(
    "--failed",
    metavar="RUN",
    help="From traces: only answers that did not pass in RUN, a run of agentv score; with its evaluators.",
)
@click.option(
    "--since",
    "since_s",
    type=Span(),
    metavar="SPAN",
    help="From traces: only answers from the last SPAN, e.g. 12h or 1d.",
)
@click.option("--sample", metavar="SHARE|N", help="From traces: a random sample, as a share (1%, 0.01) or a number.")
@click.option(
    "--sample-by", metavar="KEY", help="With --sample: answers with the same value of KEY are all taken or all skipped."
)
@click.option("--seed", type=int, default=0, show_default=True, metavar="N", help="Seed of the sample.")
@click.option("--map", "paths", multiple=True, metavar="FIELD=PATH", help="From logs: where a field is in a line.")
@UNIT_OPTION
@IDLE_OPTION
def evals(more: tuple[str, ...], traces: tuple[str, ...], **given: Any) -> int:
    """Write cases from the file --in, or from logged answers (--from-traces), into the eval file OUT.

    With --in, a model writes cases for each record of the file. In JSON Lines (.jsonl) each line is a record, in a
    table (.csv, .tsv) each row; any other file is text, which is split into records of at most 6,000 characters. If the
    model fails on a record, nothing is written, unless --keep-going is given.

    With --from-traces, no model is called. Each answer in the files, which are those that agentv score reads, becomes a
    case: the conversation up to the question, and the recorded answer as its reference. Questions that were asked
    several times become one case.

    Exit codes: 0 done, 3 generation failed, 4 invalid usage or files, 5 there are no records or answers.
    """
    data = given["data"]
    if (data is None) == (not traces):
        raise click.UsageError("give either --in FILE or --from-traces FILE")
    if more and not traces:
        raise click.UsageError(f"unexpected argument {more[0]!r}")
    _refuse_options(_MODEL_OPTIONS if traces else _TRACES_OPTIONS, "--from-traces" if traces else "--in")
    if traces:
        from agentv.cli.evals.generate_from_traces import make_traces_options, suite_from_traces

        return suite_from_traces((*traces, *more), make_traces_options(given))
    shared = {name: given[name] for name in GenerateOptions.__struct_fields__}
    own = {name: given[name] for name in EvalsOptions.__struct_fields__}
    return generate_evals(EvalsOptions(**own), GenerateOptions(**shared))


_MODEL_OPTIONS = ("count", "target", "targets_file", "prompt_path", "concurrency", "keep_going")
_TRACES_OPTIONS = (
    "expected", "trajectory", "keeps_system", "failed", "since_s", "sample", "sample_by", "seed", "paths", "unit",
    "idle_s",
)  # fmt: skip


def _refuse_options(names: Sequence[str], option: str) -> None:
    """Raise UsageError for an option that has no effect with `option`."""
    context = click.get_current_context()
    for parameter in context.command.params:
        is_given = context.get_parameter_source(parameter.name or "") is ParameterSource.COMMANDLINE
        if parameter.name in names and is_given:
            raise click.UsageError(f"{parameter.opts[0]} cannot be combined with {option}")


@command.command("categories")
@click.argument("run", default="latest", metavar="[RUN]")
@click.option("--target", metavar="NAME", help="Target that proposes the categories; use a strong model.")
@click.option(
    "--targets-file", "--targets", "targets_file", metavar="FILE", help="Targets file or folder (default: nearest)."
)
@click.option("--accept", is_flag=True, help="Accept the categories that were proposed last; calls no model.")
@click.option("--only", multiple=True, metavar="NAME", help="Accept only this category; repeatable.")
@click.option("--dry-run", is_flag=True, help="Print the request without sending it.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def categories(run: str, *, accept: bool, only: tuple[str, ...], **given: Any) -> int:
    """Propose failure categories from the notes in a run's labels.

    The model gets the notes of labels that are no passes and have no category. It proposes categories, each with the
    notes that belong to it. The proposal changes nothing: with --accept, a person adds the proposed categories to the
    run and assigns them to the labels.

    RUN is a run id or its prefix, a name, a path, 'latest' (the default) or 'latest~1'.

    Exit codes: 0 done, 3 generation failed, 4 invalid usage or files, 5 no label has a note to sort.
    """
    from agentv.cli.evals.generate_categories import CategoriesOptions, generate_categories

    return generate_categories(run, CategoriesOptions(accept=accept, only=only), GenerateOptions(**given))
