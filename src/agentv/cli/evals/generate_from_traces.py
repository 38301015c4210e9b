"""`agentv generate evals --from-traces`: an eval file from the questions in traces, transcripts and logs."""

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, TextIO

import click
from msgspec import Struct

from agentv.cli.evals.cases_output import CasesOutput
from agentv.cli.evals.generate import EXIT_NOTHING, SCHEMA
from agentv.cli.running.score import check_sources
from agentv.cli.terminal import own_stdout
from agentv.engine.capture import Cleaner, Redactor
from agentv.engine.criteria.logged_cases import CaseRules, LoggedCases, Order, personal_data
from agentv.engine.logs.answer_filter import AnswerFilter
from agentv.engine.logs.files import LogFiles, log_files
from agentv.engine.logs.stream import SampledLines, sampled_lines
from agentv.engine.planning.inputs import load_project_parts
from agentv.engine.running.clock import make_clock
from agentv.engine.stored.exported_cases import JudgedCases, failed_cases
from agentv.execution.loops import run_in_own_loop
from agentv.execution.processes.line_stream import STDIN, Line, ReadLine
from agentv.loading.files.places import find_home, find_repository_root
from agentv.loading.files.text import shown
from agentv.loading.project import load_project
from agentv.loading.suites.recorded import read_log_line
from agentv.messages.logs.mapping import LogMap, parse_map, reads_content
from agentv.messages.logs.reading import TraceStep
from agentv.reports.text.amounts import count_text
from agentv.reports.text.printable import one_line, printable, printable_json
from agentv.scoring.counting.sampling import Sample, make_sample
from agentv.storage.run.find import find_run
from agentv.storage.run.stored import open_run
from agentv.telemetry.joining.joining import JoinOptions
from agentv.templating.secrets import secret_values
from agentv.types.errors import ConfigError, EvalFileError
from agentv.types.input_notes import word_notes
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.messages_json import pretty_json
from agentv.types.records.answer import Origin, ResultKey, source_of

_MAX_NAMES = 3
_NO_CASE = "no case"
UNREADABLE = "cannot be read, or have no answer because it failed, as 'agentv traces show' explains"
STEP = "are steps of a trace"


class TracesOptions(Struct, frozen=True):
    """The options of `agentv generate evals --from-traces`."""

    output: CasesOutput
    sample: Sample
    joining: JoinOptions
    paths: LogMap
    expects_answer: bool
    trajectory: Order | None = None
    keeps_system: bool = False
    failed: str | None = None
    """The run of which only the answers that did not pass are taken."""
    since_s: float | None = None
    limit: int | None = None
    dry_run: bool = False
    as_json: bool = False


def make_traces_options(given: Mapping[str, Any]) -> TracesOptions:
    """Return the options of the command line. Raises ConfigError for wrong values."""
    expected = given["expected"] or ("none" if given["failed"] else "recorded")
    sample = make_sample(given["sample"], by=given["sample_by"], seed=given["seed"])
    for name, option in (("since_s", "--since"), ("failed", "--failed")):
        if sample.count is not None and given[name] is not None:
            raise ConfigError(
                f"--sample {sample.count} draws from all answers, before {option}; write a share, or use --limit"
            )
    paths = parse_map(given["paths"])
    return TracesOptions(
        output=CasesOutput(given["out"], given["append"], given["allow_paths"]),
        sample=sample,
        joining=JoinOptions(given["unit"], given["idle_s"], joins_records=not reads_content(paths)),
        paths=paths,
        expects_answer=expected == "recorded",
        **{name: given[name] for name in ("trajectory", "keeps_system", "failed", "since_s", "limit")},
        dry_run=given["dry_run"],
        as_json=given["as_json"],
    )


def suite_from_traces(files: Sequence[str], options: TracesOptions) -> int:
    """Write the cases of the answers in the files; return the exit code."""
    with own_stdout() as stdout:
        output, logs = options.output, log_files(files)
        check_sources(logs.paths)
        output.check((Path(each) for each in logs.paths), "--from-traces")
        specs, _ = load_project_parts([output.path.parent])
        file, _ = output.open(specs)
        judged = None if options.failed is None else _judged_cases(options.failed, output)
        reader = _AnswerReader(options, _cases(options, judged, file.cases), logs)
        run_in_own_loop(reader.read())
        data = ", ".join("standard input" if each == STDIN else shown(Path(each)) for each in files)
        written = _Written(options, reader, judged, data=data, is_new=not file.data)
        if written.cases and not options.dry_run:
            output.write(file, written.cases, specs, data=data, other_keys=written.other_keys)
        written.show(stdout)
        return 0 if written.cases else EXIT_NOTHING


def _judged_cases(run: str, output: CasesOutput) -> JudgedCases:
    return failed_cases(open_run(find_run(find_home(Path.cwd()), run)), folder=output.path.parent)


def _cases(options: TracesOptions, judged: JudgedCases | None, existing: Sequence[JsonObject]) -> LoggedCases:
    rules = CaseRules(
        expects_answer=options.expects_answer,
        trajectory=options.trajectory,
        keeps_system=options.keeps_system,
        ids=None if judged is None else judged.ids,
        has_evaluators=judged is not None and bool(judged.evaluators),
    )
    cases = LoggedCases(rules)
    cases.add_existing(existing)
    return cases


class _AnswerReader:
    """Reads the answers in files, and adds each to the cases until there are enough."""

    def __init__(self, options: TracesOptions, cases: LoggedCases, files: LogFiles) -> None:
        self.cases = cases
        self._options = options
        since = None if options.since_s is None else make_clock()() - timedelta(seconds=options.since_s)
        self.filter = AnswerFilter(since)
        self.lines: SampledLines = sampled_lines(files, options.sample, since, options.joining)
        self._cleaner = _cleaner(options.output.path.parent)
        self._mapped: set[str] = set()

    async def read(self) -> None:
        """Read the answers."""
        try:
            while not self._is_enough and (line := await self.lines.next()) is not None:
                self._add(line)
        finally:
            await self.lines.close()

    @property
    def _is_enough(self) -> bool:
        return self._options.limit is not None and len(self.cases.cases) >= self._options.limit

    def _add(self, line: ReadLine) -> None:
        place = source_of(line.file, line.number, line.part)
        if not isinstance(line, Line):
            self.cases.lose(UNREADABLE, place)
            return
        try:
            logged = read_log_line(line.data, line.file, line.number, paths=self._options.paths, extra="metadata")
        except EvalFileError:
            self.cases.lose(UNREADABLE, place)
            return
        if isinstance(logged, TraceStep):
            self.cases.lose(STEP, place)
            return
        self._mapped.update(logged.mapped)
        (given,) = self._cleaner.clean_all(logged.given)
        origin = Origin(line.file, line.number, line.part, "", line.trace_id, line.span_id)
        if self.filter.wants(given, ResultKey("", "", ""), origin):
            self.cases.add(given, origin)

    def notes(self) -> Iterator[str]:
        """Yield what in the files was not read as an answer, and which options found nothing."""
        yield from word_notes((*self.lines.notes(), *self.filter.notes()), left_out=_NO_CASE)
        for name, path in self._options.paths.items():
            if name not in self._mapped:
                yield f"no line has the path of --map {name}={path}"
        if (key := self.lines.missing_key()) is not None:
            yield f"no line has the sampling key {key!r}: each line was sampled independently"


def _cleaner(folder: Path) -> Cleaner:
    """Return what removes the secrets of the environment and what the project redacts."""
    project = load_project(folder, find_repository_root(folder))
    return Cleaner(Redactor(secret_values(os.environ), project.redact))


class _Written:
    """The outcome of the command: its cases, and what the user should know of them."""

    def __init__(
        self, options: TracesOptions, reader: _AnswerReader, judged: JudgedCases | None, *, data: str, is_new: bool
    ) -> None:
        self._options, self._reader, self._judged, self._data = options, reader, judged, data
        self._has_top = is_new and options.output.path.suffix != ".jsonl"
        self.cases: list[JsonObject] = reader.cases.finished()
        self.other_keys: dict[str, JsonValue] = {}
        if judged is not None and judged.evaluators and self._has_top:
            self.other_keys = {**({"criteria": list(judged.criteria)} if judged.criteria else {})}
            self.other_keys["evaluators"] = list(judged.evaluators)
        elif judged is not None and judged.evaluators:
            self.cases = [{**case, "evaluators": list(judged.evaluators)} for case in self.cases]
        self.personal = personal_data(self.cases)

    def show(self, stdout: TextIO) -> None:
        """Print the file, or with `--dry-run` its content and the notes on standard error."""
        options, path = self._options, self._options.output.path
        if options.as_json:
            click.echo(printable_json(pretty_json(self._record())), file=stdout)
            return
        if options.dry_run and self.cases:
            text = options.output.new_text(self.cases, data=self._data, other_keys=self.other_keys)
            click.echo(printable(text), file=stdout)
        elif self.cases:
            click.echo(f"Wrote {path}: {count_text(len(self.cases), 'case')}", file=stdout)
        else:
            click.echo(f"NOTHING WRITTEN: {self._why_none()}. Exit code {EXIT_NOTHING}.", file=stdout)
        for note in self.notes():
            click.echo(f"note: {one_line(note)}", file=sys.stderr if options.dry_run else stdout)

    def _why_none(self) -> str:
        reader, cases = self._reader, self._reader.cases
        if cases.repeated:
            return (
                "the file has all questions already" if self._options.output.append else "all questions repeat others"
            )
        if cases.unwanted and self._judged is not None:
            return f"no answer in these files failed or ended with an error in run {self._judged.run_id}"
        if cases.unusable:
            return "no answer can become a case"
        notes = word_notes(reader.lines.notes(), left_out=_NO_CASE)
        return reader.filter.why_none() or "; ".join(notes) or "there are no answers in the files"

    def notes(self) -> list[str]:
        """Return what became no case and why, and what to look at before the file is shared."""
        cases = self._reader.cases
        notes = [
            f"{_NO_CASE}, because they {reason}: {places.count:,} ({places})"
            for reason, places in cases.unusable.items()
        ]
        if cases.repeated:
            notes.append(f"{_NO_CASE}, because their question has one already: {count_text(cases.repeated, 'answer')}")
        if cases.without_system:
            many = count_text(cases.without_system, "case")
            notes.append(f"system prompt left out of {many}; --with-system includes it")
        notes += self._reader.notes()
        if self.cases:
            notes.append(
                "the cases contain texts of real users; only known secrets and what the project redacts are removed: "
                "read them before you share them"
            )
        notes += [f"looks like personal data: {kind} in {_named(ids)}" for kind, ids in self.personal.items()]
        return notes

    def _record(self) -> JsonObject:
        cases = self._reader.cases
        return {
            "schema": SCHEMA,
            "file": str(self._options.output.path),
            "written": bool(self.cases) and not self._options.dry_run,
            "cases": list(self.cases),
            "repeated": cases.repeated,
            "unusable": [
                {"reason": reason, "count": places.count, "first": list(places.first)}
                for reason, places in cases.unusable.items()
            ],
            "personal_data": {kind: list(ids) for kind, ids in self.personal.items()},
            "notes": list(self.notes()),
        }


def _named(ids: Sequence[str]) -> str:
    more = f" and {len(ids) - _MAX_NAMES:,} more" if len(ids) > _MAX_NAMES else ""
    return f"{count_text(len(ids), 'case')} ({', '.join(ids[:_MAX_NAMES])}{more})"
