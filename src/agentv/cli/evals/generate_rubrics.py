"""`agentv generate rubrics`: read the file, generate rubrics for each case, write all of them or none."""

import os
from pathlib import Path

import click
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
from agentv.cli.terminal import own_stdout
from agentv.engine.generate.generation import RUBRIC_VARIABLES, GenerationSetup, rubrics_prompt
from agentv.engine.generate.rubrics import make_rubrics_job, request_rubrics, rubrics_to_json, with_rubrics
from agentv.engine.planning.inputs import SuiteInput, load_inputs
from agentv.engine.planning.selection import select_cases
from agentv.loading.edit.cases_file import open_cases
from agentv.loading.files.atomic_write import replace_content
from agentv.loading.files.places import find_eval_files
from agentv.registry import Specs
from agentv.reports.text.amounts import count_text
from agentv.types.cases import BrokenCase, EvalCase, EvalSuite
from agentv.types.errors import EvalFileError


def generate_rubrics(path: Path, case_globs: tuple[str, ...], options: GenerateOptions) -> int:
    """Add rubrics to a file's cases; return the exit code. Output of targets goes to standard error."""
    with own_stdout() as stdout:
        run_options = options.run_options(case_globs)
        cwd = Path.cwd()
        inputs = load_inputs(find_eval_files([path], cwd=cwd), run_options, cwd=cwd, env=os.environ)
        suite, file = inputs.suites[0].suite, open_cases(path)
        cases, positions = _whole(suite), select_cases(suite, run_options).positions
        chosen = [index for index in range(len(cases)) if positions is None or index in positions]
        if not chosen:
            click.echo(f"no case of {path} matches", err=True)
            return EXIT_NOTHING
        job = make_rubrics_job(file, cases, chosen, inputs.specs)
        setup = _setup(inputs.suites[0], options, inputs.specs, len(job.tasks))
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
        if report.writes:
            replace_content(path, with_rubrics(job, made, inputs.specs), before=file.data)
        return report.show(stdout)


def _setup(item: SuiteInput, options: GenerateOptions, specs: Specs, total: int) -> GenerationSetup:
    prompt = rubrics_prompt(options.template(RUBRIC_VARIABLES, ("question", "expected_outcome")))
    setup = make_setup(prompt, item.known, item.suite.target, options, specs=specs)
    return replace(
        setup,
        eval_dir=item.suite.base_dir,
        timeout_s=item.suite.timeout_s,
        redact=item.suite.redact,
        prices=item.suite.prices,
        on_done=show_progress(total, "case"),
    )


def _whole(suite: EvalSuite) -> list[EvalCase]:
    """Return all cases. Raises EvalFileError when one of them cannot be read."""
    cases = list(suite.cases)
    problems = [problem for case in cases if isinstance(case, BrokenCase) for problem in case.problems]
    if problems:
        raise EvalFileError(suite.path, problems)
    return [case for case in cases if isinstance(case, EvalCase)]
