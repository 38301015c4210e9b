"""`cli`: a command, run once for each case or for a batch of cases."""

import asyncio
import functools
import json
import os
import shlex
import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, cast

from msgspec import Struct
from msgspec.structs import replace

from agentv.execution.cancelled_calls import attach_call
from agentv.execution.folder_trees import remove_tree
from agentv.execution.processes.left_behind import PREFIX, temporary_folder
from agentv.execution.processes.process import MAX_OUTPUT_BYTES
from agentv.providers.agents.commands import decode, read_output_file, run_command, run_healthcheck
from agentv.providers.apis.responses import ACCEPTED_KEYS, parse_answer, parse_known, parse_named, parse_output
from agentv.providers.local.cli_settings import CliSettings
from agentv.providers.local.otel_settings import span_variables, why_no_spans
from agentv.templating.command import FilledCommand, parse_command, parse_files_format
from agentv.types.errors import TemplateError
from agentv.types.failures import Failure
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.protocols import ProviderTools
from agentv.types.provider import ProviderError, ProviderRequest, ProviderResponse
from agentv.types.targets import DEFAULT_TRY_TIMEOUT_S, ResolvedTarget

if TYPE_CHECKING:
    from agentv.providers.local.call_spans import CallSpans

_MAX_PROBLEMS_LISTED = 20
"""The maximum number of problems that a message lists; further ones are only counted."""


def cases_text(requests: Iterable[ProviderRequest]) -> str:
    """Return the content of {CASES_FILE}: one JSON object per line with `id, prompt, guidelines, files`.

    A case with a system prompt apart from its prompt also has `system_prompt`.
    """
    return "".join(json.dumps(_case(request)) + "\n" for request in requests)


def _case(request: ProviderRequest) -> Mapping[str, JsonValue]:
    fields: dict[str, JsonValue] = {
        "id": request.eval_case_id,
        "prompt": request.question,
        "guidelines": request.guidelines,
        "files": list(request.input_files),
    }
    return {**fields, "system_prompt": request.system_prompt} if request.system_prompt else fields


def parse_batch(text: str, ids: Collection[str]) -> dict[str, ProviderResponse]:
    """Return the answers in the output of a batch, by case id; a case without a line is left out.

    `ids` are the ids of the cases. Raises ProviderError for invalid lines and for unknown or repeated ids, all named by
    their line numbers; for an answer whose messages cannot be read; and if there is no answer at all.
    """
    answers: dict[str, ProviderResponse] = {}
    problems: list[str] = []
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            problems.append(f"line {number} is not JSON")
            continue
        case_id = value.get("id") if isinstance(value, Mapping) else None
        if not isinstance(case_id, str):
            problems.append(f"line {number} has no id")
        elif case_id not in ids:
            problems.append(f"line {number} has the unknown id {case_id!r}")
        elif case_id in answers:
            problems.append(f"line {number} repeats the id {case_id!r}")
        else:
            answers[case_id] = _parse_line(value, f"line {number} of the batch output")
    if problems:
        unlisted = len(problems) - _MAX_PROBLEMS_LISTED
        more = f" and {unlisted} more" if unlisted > 0 else ""
        message = f"the batch output is invalid: {'; '.join(problems[:_MAX_PROBLEMS_LISTED])}{more}"
        raise ProviderError(Failure("malformed_reply", message))
    if ids and not answers:
        raise ProviderError(Failure("malformed_reply", "the batch output is empty; expected one JSON line for each id"))
    return answers


def _parse_line(line: JsonObject, at: str) -> ProviderResponse:
    """Return the answer in a line of a batch. Raises ProviderError."""
    known = parse_known(line)
    if known is not None or line.keys() <= ACCEPTED_KEYS:  # `text` is optional
        return known or parse_answer(line)
    return parse_named({key: item for key, item in line.items() if key != "id"}, at)


def parse_single(text: str, case_id: str) -> ProviderResponse:
    """Return the answer to a single case of a target that also answers batches.

    The command may also print it as a batch does, as a line with an id. So output is parsed as a batch if it
    consists of several lines that are all JSON objects, or of one such line with an id; a line without an id or with
    another id is then invalid. Raises ProviderError as `parse_batch` or `parse_output` does.
    """
    values = [_json_or_none(line) for line in text.split("\n") if line.strip()]
    objects = [value for value in values if isinstance(value, Mapping)]
    has_only_objects = len(objects) == len(values)
    is_batch = has_only_objects and (len(objects) > 1 or any("id" in value for value in objects))
    return parse_batch(text, [case_id])[case_id] if is_batch else parse_output(text)


def _json_or_none(line: str) -> object:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


BATCH_ID = "batch"
"""The value of {EVAL_ID} in a call for a batch."""
MAX_BATCH_BYTES = 256 * 2**20
_MAX_NOTED_CHARACTERS = 2_000
_NO_FOLDER = Path()
"""Stands for the folder of a call that needs none."""

_FILE_NAMES = {"PROMPT_FILE": "prompt.txt", "CASES_FILE": "cases.jsonl", "OUTPUT_FILE": "output"}
"""The placeholders that stand for a file in the folder of a call, each with the name of the file."""

_CASE_PLACEHOLDERS = ("PROMPT", "PROMPT_FILE", "CASES_FILE")
"""The placeholders that can pass the prompt of a single case; {CASES_FILE} then has one line."""


class _CommandOutput(Struct, frozen=True):
    """The output of a successful command, with notes. `log_paths` has the folder of the call if it is kept."""

    text: str
    notes: tuple[str, ...]
    log_paths: tuple[str, ...]

    def add_to(self, response: ProviderResponse) -> ProviderResponse:
        """Return the response with the exit code, notes and log paths of the command."""
        return replace(response, exit_code=0, notes=(*response.notes, *self.notes), log_paths=self.log_paths)


class CliProvider:
    """Fills the command template, runs the command, and reads {OUTPUT_FILE} or standard output."""

    kind = "cli"
    keeps_deadlines = True
    supports_batch = True

    def __init__(self, target: ResolvedTarget, tools: ProviderTools) -> None:
        self._target = target
        self._tools = tools
        self._settings = cast(CliSettings, target.settings)
        self._template = parse_command(self._settings.command_template)
        self._files_format = parse_files_format(self._settings.files_format)

    @property
    def only_batches(self) -> bool:
        """True if the target batches and its template has no placeholder for the prompt of a single case."""
        return self._target.provider_batching and self._template.placeholders.isdisjoint(_CASE_PLACEHOLDERS)

    async def invoke(self, request: ProviderRequest) -> ProviderResponse:
        """Return the command's answer to one case.

        If the command fails or is cancelled, the ProviderError or CancelledError holds the answer written so far.
        """
        return await (self._answer_with_spans(request) if self._settings.otel else self._answer(request, {}))

    async def _answer_with_spans(self, request: ProviderRequest) -> ProviderResponse:
        """Return the command's answer to one case, completed by the spans that it sends."""
        # The reader of traces is imported only if it is needed.
        from agentv.providers.local.call_spans import call_with_spans  # noqa: PLC0415
        from agentv.providers.local.span_receiver import shared_receiver  # noqa: PLC0415

        receiver = await shared_receiver(self._tools, forward=self._settings.otel_forward)
        environment = self._environment()

        async def call(spans: "CallSpans") -> ProviderResponse:
            own = span_variables(
                url=receiver.url, token=spans.token, traceparent=spans.traceparent, environment=environment
            )
            return await self._answer(request, own)

        return await call_with_spans(
            receiver.inbox,
            call,
            wait_s=self._settings.otel_wait_s,
            timeout_s=request.timeout_s or self._target.timeout_s,
            why_none=functools.partial(why_no_spans, environment),
        )

    def _environment(self) -> dict[str, str]:
        """Return the variables that the command inherits and those of its settings."""
        allowed = self._settings.env_allow
        inherited = {name: value for name, value in os.environ.items() if allowed is None or name in allowed}
        return {**inherited, **self._settings.env}

    async def _answer(self, request: ProviderRequest, variables: Mapping[str, str]) -> ProviderResponse:
        """Return the command's answer to one case; `variables` are added to its environment."""
        values = {
            "PROMPT": request.question,
            "SYSTEM_PROMPT": request.system_prompt or "",
            "GUIDELINES": request.guidelines,
            "EVAL_ID": request.eval_case_id,
        }
        output = await self._run([request], values, max_bytes=MAX_OUTPUT_BYTES, variables=variables)
        if self._target.provider_batching:
            return output.add_to(parse_single(output.text, request.eval_case_id))
        return output.add_to(parse_output(output.text))

    async def invoke_batch(self, requests: Sequence[ProviderRequest]) -> Mapping[str, ProviderResponse | Failure]:
        """Return the answers to many cases, by id, from one run of the command; a case without an answer is left out.

        If the command fails, the ProviderError holds the answers written so far in `partials`.
        """
        values = {"PROMPT": "", "SYSTEM_PROMPT": "", "GUIDELINES": "", "EVAL_ID": BATCH_ID}
        max_bytes = min(MAX_OUTPUT_BYTES * len(requests), MAX_BATCH_BYTES)
        output = await self._run(requests, values, max_bytes=max_bytes, is_batch=True)
        answers = parse_batch(output.text, {request.eval_case_id for request in requests})
        return {case_id: output.add_to(answer) for case_id, answer in answers.items()}

    async def healthcheck(self) -> None:
        """Raise ProviderError with kind `healthcheck` if the configured healthcheck fails."""
        await self.healthcheck_in((self._target.base_dir,))

    async def healthcheck_in(self, eval_dirs: Sequence[str]) -> None:
        """Run the configured healthcheck. Raises as `healthcheck` does.

        A relative working folder starts from each of `eval_dirs`; a command runs once in each resulting folder.
        """
        settings, shared = self._settings, self._tools.shared
        if settings.otel:  # the start of the receiver is no time of the first command
            from agentv.providers.local.span_receiver import shared_receiver  # noqa: PLC0415

            await shared_receiver(self._tools, forward=settings.otel_forward)
        check = settings.healthcheck
        await run_healthcheck(check, self._target, shared, eval_dirs=eval_dirs, cwd=settings.cwd, env=settings.env)

    async def _run(
        self,
        requests: Sequence[ProviderRequest],
        values: Mapping[str, str],
        *,
        max_bytes: int,
        is_batch: bool = False,
        variables: Mapping[str, str] | None = None,
    ) -> _CommandOutput:
        """Run the command once for all `requests`, which share their attempt, deadline and working folder.

        `values` fill {PROMPT}, {SYSTEM_PROMPT}, {GUIDELINES} and {EVAL_ID}; `variables` are added to the environment.
        """
        first = requests[0]
        timeout_s = first.timeout_s or self._target.timeout_s or DEFAULT_TRY_TIMEOUT_S * len(requests)
        printed = bytearray()
        with self._folder() as folder:
            filled = self._fill(requests, values, folder)
            try:
                outcome = await run_command(
                    filled,
                    cwd=self._cwd(first),
                    env={**self._settings.env, **(variables or {})},
                    timeout_s=timeout_s,
                    max_bytes=max_bytes,
                    inherit=self._settings.env_allow,
                    printed=printed,
                )
            except ProviderError as error:
                if error.failure.kind == "too_large":  # no part of the output is used
                    raise
                if is_batch:
                    partials = self._partial_batch(folder, printed, max_bytes, {each.eval_case_id for each in requests})
                    raise ProviderError(error.failure, partials=partials) from None
                raise ProviderError(error.failure, partial=self._partial_answer(folder, printed, max_bytes)) from None
            except asyncio.CancelledError as error:
                attach_call(error, None if is_batch else self._partial_answer(folder, printed, max_bytes))
                raise
            text, notes = self._output(folder, printed, max_bytes)
        if self._settings.verbose:
            notes = (*notes, f"ran in {outcome.duration_s:.1f} s: {shlex.join(filled.argv)[:_MAX_NOTED_CHARACTERS]}")
        return _CommandOutput(text, notes, (str(folder),) if self._settings.keep_temp_files else ())

    def _output(self, folder: Path, printed: bytearray, max_bytes: int) -> tuple[str, tuple[str, ...]]:
        """Return the text of {OUTPUT_FILE} if the template names it, else of standard output, and notes about it.

        Raises ProviderError if {OUTPUT_FILE} cannot be read.
        """
        if "OUTPUT_FILE" in self._template.placeholders:
            return decode(read_output_file(folder / _FILE_NAMES["OUTPUT_FILE"], max_bytes), "{OUTPUT_FILE}")
        return decode(bytes(printed), "standard output")

    def _partial_answer(self, folder: Path, printed: bytearray, max_bytes: int) -> ProviderResponse | None:
        """Return the answer that the command had written when it failed or was cancelled; None if there is none.

        The answer may be cut anywhere. Output that cannot be parsed is returned as plain text.
        """
        text = self._text_so_far(folder, printed, max_bytes)
        if not text.strip():
            return None
        try:
            response = parse_output(text)
        except ProviderError:
            response = ProviderResponse(text)
        return replace(response, log_paths=(str(folder),) if self._settings.keep_temp_files else ())

    def _partial_batch(
        self, folder: Path, printed: bytearray, max_bytes: int, ids: Collection[str]
    ) -> dict[str, ProviderResponse]:
        """Return the answers in the lines that the command had written when it failed, by case id."""
        partials: dict[str, ProviderResponse] = {}
        for line in self._text_so_far(folder, printed, max_bytes).split("\n"):
            if line.strip():
                with suppress(ProviderError):  # an incomplete line, or not an answer to a case
                    partials.update(parse_batch(line, ids))
        return partials

    def _text_so_far(self, folder: Path, printed: bytearray, max_bytes: int) -> str:
        try:
            return self._output(folder, printed, max_bytes)[0]
        except ProviderError:  # {OUTPUT_FILE} is missing or cannot be read
            return decode(bytes(printed), "standard output")[0]

    def _folder(self) -> AbstractContextManager[Path]:
        """Return a context with the folder for the files of one call; `_NO_FOLDER` if the call needs none."""
        keep = self._settings.keep_temp_files
        is_needed = keep or not self._template.placeholders.isdisjoint(_FILE_NAMES)
        return _temporary_folder(keep=keep) if is_needed else nullcontext(_NO_FOLDER)

    def _fill(self, requests: Sequence[ProviderRequest], values: Mapping[str, str], folder: Path) -> FilledCommand:
        """Write {PROMPT_FILE} and {CASES_FILE} if the template names them, and return the filled template.

        Raises ProviderError if the template cannot be filled with the values.
        """
        paths = {name: folder / file for name, file in _FILE_NAMES.items() if name in self._template.placeholders}
        if "PROMPT_FILE" in self._template.placeholders:
            _write(paths["PROMPT_FILE"], values["PROMPT"])
        if "CASES_FILE" in self._template.placeholders:
            _write(paths["CASES_FILE"], cases_text(requests))
        files = dict.fromkeys(path for request in requests for path in request.input_files)
        texts = {
            **{name: _encodable(value) for name, value in values.items()},
            **{name: str(path) for name, path in paths.items()},
            "ATTEMPT": str(requests[0].attempt),
        }
        try:
            return self._template.fill(texts, self._files_format.fill(list(files)))
        except TemplateError as error:
            raise ProviderError(Failure("bad_request", str(error))) from None

    def _cwd(self, request: ProviderRequest) -> Path:
        if request.workspace is not None:
            return Path(request.workspace)
        return _folder_in(request.eval_dir or self._target.base_dir, self._settings.cwd or "")


@contextmanager
def _temporary_folder(*, keep: bool) -> Iterator[Path]:
    # A kept folder is not made by `temporary_folder`, whose folders are removed if this process is killed.
    folder = Path(tempfile.mkdtemp(prefix=PREFIX)) if keep else temporary_folder()
    try:
        yield folder
    finally:
        if not keep:
            remove_tree(folder)


@functools.cache
def _folder_in(base: str, relative: str) -> Path:
    """Return the working folder of a command. Cached, since all cases of an eval file share this folder."""
    return Path(base, relative)


def _write(path: Path, text: str) -> None:
    path.write_bytes(_encodable(text).encode())


def _encodable(text: str) -> str:
    """Return text with U+FFFD for lone surrogates, which neither a file nor an argument can hold."""
    if text.isascii():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
