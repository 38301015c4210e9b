"""Evaluators of AgentV 1.5 to 4.42 translated into ours: types, settings, and their meaning in AgentV."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from os.path import relpath
from pathlib import Path

from msgspec import Struct

from agentv.importers.agentv.generations import Generation
from agentv.importers.agentv.rewriting import Entries, NewObject, Report, Rewriter, Sourced, is_list
from agentv.loading.files.places import is_file_path
from agentv.loading.models.file_model import names_of
from agentv.loading.models.reader import open_yaml
from agentv.loading.suites.other_evaluators import other_tools_advice
from agentv.scoring.keys.identity import slug
from agentv.templating.variables import JUDGE_VARIABLES, canonical_name, variable_names
from agentv.types.cases import EvaluatorConfig
from agentv.types.errors import EvalFileError, nearest
from agentv.types.json_value import JsonValue

EVALUATOR_KEYS = ("assertions", "assert", "evaluators")
"""The keys of lists of evaluators; the first that is present has an effect."""
_OUR_TYPES = {
    "code_grader": "code_judge",
    "code_judge": "code_judge",
    "llm_grader": "llm_judge",
    "llm_judge": "llm_judge",
    "rubrics": "rubric",
    "rubric": "rubric",
    "composite": "composite",
    "tool_trajectory": "tool_trajectory",
    "field_accuracy": "field_accuracy",
    "skill_trigger": "skill_trigger",
    "trigger_judge": "skill_trigger",
    "latency": "trace",
    "cost": "trace",
    "token_usage": "trace",
    "execution_metrics": "trace",
    "contains": "contains",
    "contains_any": "contains",
    "contains_all": "contains",
    "icontains": "contains",
    "icontains_any": "contains",
    "icontains_all": "contains",
    "starts_with": "starts_with",
    "ends_with": "ends_with",
    "equals": "equals",
    "regex": "regex",
    "is_json": "is_json",
}
"""The types of AgentV with underscores, and ours."""
_COMMON_KEYS = ("name", "type", "weight", "negate", "required", "min_score")
_OUR_COMMON_KEYS = tuple(key for key in names_of(EvaluatorConfig).canonical if key not in _COMMON_KEYS)
"""Our own common keys, which no version of AgentV had; they are not translated."""
PLAIN_TEXTS_NAME = "criteria"
"""The name of the rubric made from the plain strings in a list of evaluators."""

_PASS_SCORE = 0.8
_MAX_INCLUDES = 3
_TRACE_BOUNDS = {
    "latency": {"threshold": "max_duration_ms"},
    "cost": {"budget": "max_cost_usd"},
    "token_usage": {"max_total": "max_tokens", "max_input": "max_input_tokens", "max_output": "max_output_tokens"},
    "execution_metrics": {
        "max_tool_calls": "max_tool_calls",
        "max_llm_calls": "max_model_steps",
        "max_tokens": "max_tokens",
        "max_cost_usd": "max_cost_usd",
        "max_duration_ms": "max_duration_ms",
        "target_exploration_ratio": "exploration_ratio",
        "exploration_tolerance": "exploration_tolerance",
    },
}
_JUDGE_KEYS = ("model", "target", "max_output_tokens", "temperature", "judges", "vote", "samples", "unsigned")
_ITEM_KEYS = (
    *("id", "weight", "required", "scale", "min_value", "operator", "score_ranges"),
    *("min_score", "required_min_score"),
)
_RENAMED_SETTINGS = {
    "regex": {"value": "pattern", "pattern": "pattern", "flags": "flags", "expect": "expect"},
    "field_accuracy": {"fields": "fields", "aggregation": "aggregation"},
    "skill_trigger": {"skill": "skill", "should_trigger": "should_trigger"},
    "trigger_judge": {"skill": "skill", "should_trigger": "should_trigger"},
    "is_json": {"schema": "schema", "fenced": "fenced"},
}
"""Our names of settings, for types whose settings differ from AgentV's in their names alone."""
_ARGS_MATCH = {"exact": "exact", "ignore": "ignore", "superset": "named_keys", "subset": "known_keys"}


class EvaluatorTranslator(Struct):
    """Translates the evaluators of one file."""

    generation: Generation
    rewriter: Rewriter
    report: Report
    folders: Sequence[Path]
    """The folders in which templates and prompts are searched."""
    is_known_type: Callable[[str], bool]

    def effective_list(self, holder: Entries, execution: Entries) -> Sourced | None:
        """Return the list of evaluators that has an effect in a case or suite; warn of the others."""
        places = [holder.get("assertions"), holder.get("assert"), execution.get("assertions"), execution.get("assert")]
        places += [execution.get("evaluators"), holder.get("evaluators")]
        found = [sourced for sourced in places if sourced is not None]
        for other in found[1:]:
            self.report.warn(other.at, f"this list of evaluators is ignored, as in {self.report.program}")
        return found[0] if found else None

    def translate_list(self, sourced: Sourced) -> list[NewObject | Sourced]:
        """Return the translated evaluators of a list; other entries stay, and are reported when the file is read."""
        if not is_list(sourced.value):
            return [sourced]
        translated: list[NewObject | Sourced] = []
        texts: list[Sourced] = []
        texts_index = 0
        for item in self._with_includes(self.rewriter.items(sourced), ()):
            if isinstance(item.value, str) and self.generation == Generation.FOURTH:
                texts_index = texts_index if texts else len(translated)
                texts.append(item)
            elif isinstance(item.value, Mapping):
                translated.append(NewObject(self.translate(item), item.at))
            else:
                translated.append(item)
        if texts:
            translated.insert(texts_index, NewObject(self._rubric_of_texts(texts), texts[0].at))
        return translated

    def _rubric_of_texts(self, texts: Sequence[Sourced]) -> Entries:
        """Return one rubric for the plain texts of a list; each has the weight of an evaluator."""
        items = [self._rubric_item(text, number) for number, text in enumerate(texts, 1) if str(text.value).strip()]
        at = texts[0].at
        rubrics = self.rewriter.list([Sourced(self.rewriter.object(each), at) for each in items])
        return {
            "name": Sourced(PLAIN_TEXTS_NAME, at),
            "type": Sourced("rubric", at),
            "weight": Sourced(len(items), at),
            "rubrics": Sourced(rubrics, at),
        }

    def _with_includes(self, items: Iterable[Sourced], chain: tuple[str, ...]) -> Iterator[Sourced]:
        """Yield the entries of a list, with each `include` replaced by the entries of its template."""
        for item in items:
            name = item.value.get("include") if isinstance(item.value, Mapping) and len(item.value) == 1 else None
            if isinstance(name, str):
                yield from self._entries_of_template(name, item, chain)
            else:
                yield item

    def _entries_of_template(self, name: str, item: Sourced, chain: tuple[str, ...]) -> Iterator[Sourced]:
        """Yield the entries of a template file; `chain` are the templates that include it."""
        is_name = not name.startswith(".") and "/" not in name
        paths = (f".agentv/templates/{name}.yaml", f".agentv/templates/{name}.yml") if is_name else (name,)
        found = next((file for path in paths if (file := self.find(path)) is not None), None)
        if found is None:
            self.report.refuse(item, f"there is no template {name!r}", advice=f"looked for {' and '.join(paths)}")
        elif str(found) in chain or len(chain) >= _MAX_INCLUDES:
            message = f"`include` of {name!r} is nested more than {_MAX_INCLUDES} deep, or includes itself"
            self.report.refuse(item, message)
        else:
            try:
                value = open_yaml(found).document.value
            except EvalFileError as error:
                self.report.source.problems += error.problems
                return
            listed = next((value[key] for key in EVALUATOR_KEYS if isinstance(value, Mapping) and key in value), None)
            if not is_list(listed):
                self.report.refuse(item, f"the template {name!r} has no list `assertions`")
                return
            self.rewriter.keep_alive(value)
            self.report.files.append(found)
            yield from self._with_includes((Sourced(entry, item.at) for entry in listed), (*chain, str(found)))

    def find(self, path: str) -> Path | None:
        """Return the first file of that relative path in the folders; None if there is none."""
        return next((folder / path for folder in self.folders if is_file_path(folder / path)), None)

    def translate(self, sourced: Sourced) -> Entries:
        """Return one translated evaluator."""
        given = self.rewriter.entries(sourced)
        written = given.get("type", Sourced(None)).value
        if not isinstance(written, str):
            return given
        kind = _OUR_TYPES.get(written.replace("-", "_"))
        if not self.generation.is_foreign and kind in (None, written):
            return self._first_generation(written, given)
        if kind is None:
            return self._unlisted_type(written, given, sourced)
        translated = self._common(given, sourced, written)
        rest = {key: value for key, value in given.items() if key not in (*_COMMON_KEYS, *_OUR_COMMON_KEYS)}
        translated["type"] = given["type"]._replace(value=kind)
        translated.update(self._settings(written.replace("-", "_"), rest, sourced))
        return translated

    def _unlisted_type(self, written: str, given: Entries, sourced: Sourced) -> Entries:
        """Return an evaluator whose type is not AgentV's: one of ours or of a plug-in, or unknown, which is refused."""
        if not self.is_known_type(written) and self.generation.is_foreign:
            message = (
                f"unknown evaluator type {written!r}; files in .agentv/assertions and .agentv/graders are not read"
            )
            advice = other_tools_advice(written) or "give it as code-grader: {type: code-grader, command: [...]}"
            near = nearest(written.replace("-", "_"), _OUR_TYPES)
            near = near and near.replace("_", "-")
            self.report.refuse(given["type"], message, advice=advice, suggestion=near)
            # Any known type avoids a second error; the file is refused.
            return {"name": Sourced(written, sourced.at), "type": Sourced("is_json", sourced.at)}
        return self._with_default_name(given, sourced, written)

    def _first_generation(self, kind: str, given: Entries) -> Entries:
        """Return an evaluator of AgentV 1.5, which has our form except for a few keys."""
        if kind == "tool_trajectory" and "expected" in given:
            given["expected"] = self._expected_calls(given["expected"], None)
        if kind == "composite" and is_list(given.get("evaluators", Sourced(None)).value):
            members = self.translate_list(given["evaluators"])
            given["evaluators"] = given["evaluators"]._replace(value=self.new_list(members))
        aggregator = self.rewriter.entries(given.get("aggregator", Sourced(None))) if kind == "composite" else {}
        script = self._command_line(aggregator.get("path"))
        if script is not None:
            del aggregator["path"]
            translated = self.rewriter.object({**aggregator, "script": script})
            given["aggregator"] = given["aggregator"]._replace(value=translated)
        return given

    def _command_line(self, path: Sourced | None) -> Sourced | None:
        """Return the `path` of an aggregator that is a command line; None for the path of a file."""
        if path is None or not isinstance(path.value, str) or self.find(path.value) is not None:
            return None
        return path if len(path.value.split()) > 1 else None

    def _common(self, given: Entries, sourced: Sourced, written: str) -> Entries:
        """Return the common keys of an evaluator; `required` and `min_score` become one limit."""
        translated = {key: given[key] for key in ("name", "weight", "negate", *_OUR_COMMON_KEYS) if key in given}
        translated = self._with_default_name(translated, sourced, self._default_name(written, given))
        required, least = given.get("required"), given.get("min_score")
        if required is None or required.value is False:
            if least is not None:
                self.report.drop(least, "min_score", "it is the limit of `required`, which is not set")
        else:
            limit = least if required.value is True and least is not None else required
            if limit.value is True:
                limit = limit._replace(value=_PASS_SCORE)
            translated["required"] = limit
            if self.generation == Generation.FOURTH:
                translated["unmet"] = Sourced("zero", required.at)
        return translated

    def _with_default_name(self, given: Entries, sourced: Sourced, name: str) -> Entries:
        return {"name": Sourced(name, sourced.at), **given}

    def _default_name(self, written: str, given: Entries) -> str:
        value = given.get("value", given.get("skill", Sourced(None))).value
        first = value[0] if is_list(value) and value else value
        words = slug(first) if isinstance(first, str) else ""
        return f"{written}-{words}" if words else written

    def _settings(self, kind: str, rest: Entries, sourced: Sourced) -> Entries:
        """Return the settings of an evaluator of AgentV's type `kind`, made from its other keys, `rest`."""
        if kind in _TRACE_BOUNDS:
            return {
                **self._renamed(rest, _TRACE_BOUNDS[kind]),
                "unknown": Sourced("unmet", sourced.at),
                **self._missing_trace_setting(sourced),
            }
        if kind in _RENAMED_SETTINGS:
            return self._renamed(rest, _RENAMED_SETTINGS[kind])
        match kind:
            case "code_grader" | "code_judge":
                return self._code(kind, rest, sourced)
            case "llm_grader" | "llm_judge":
                return self._judge(kind, rest)
            case "rubrics" | "rubric":
                return self._rubric(rest)
            case "composite":
                return self._composite(rest, sourced)
            case "tool_trajectory":
                return self._trajectory(rest, sourced)
            case _:
                return self._text(kind, rest, sourced)

    def _text(self, kind: str, rest: Entries, sourced: Sourced) -> Entries:
        # The last two are ours, which no version of AgentV had.
        names = ("value", "case_sensitive", "expect", "ignore", "location")
        translated = self._renamed(rest, {name: name for name in names})
        if kind.endswith("_all"):
            translated["expect"] = Sourced("all", sourced.at)
        if kind.startswith("icontains"):
            translated["case_sensitive"] = Sourced(False, sourced.at)
        return translated

    def _renamed(self, rest: Entries, names: Mapping[str, str]) -> Entries:
        """Return the settings under our names; warn of other keys, which have no effect."""
        for key, sourced in rest.items():
            if key not in names and key != "config":
                self.report.unknown(sourced, key, [*names, *_COMMON_KEYS])
        return {names[key]: sourced for key, sourced in rest.items() if key in names}

    def _code(self, kind: str, rest: Entries, sourced: Sourced) -> Entries:
        """Return the settings of a code judge; keys that AgentV does not know are passed to the script."""
        script = rest.get("command", rest.get("script"))
        known = ("command", "script", "cwd", "target", "config", "python", "timeout_seconds", "contract")
        translated: Entries = {key: rest[key] for key in ("cwd", "python", "contract") if key in rest}
        if script is not None:
            translated["script"] = script
        elif "python" not in rest:
            self.report.refuse(sourced, "a code grader needs `command`")
            translated["script"] = Sourced("true", sourced.at)  # avoids a second error; the file is refused
        if "target" in rest:
            reason = "code graders get no access to a model here (AGENTV_TARGET_PROXY_URL is not set)"
            self.report.drop(rest["target"], "target", reason)
        config = {**self.rewriter.entries(rest.get("config", Sourced(None))), **self._other_keys(rest, known)}
        if config:
            translated["config"] = Sourced(self.rewriter.object(config), sourced.at)
        return {"contract": Sourced(self._contract(kind), sourced.at), **translated}

    def _contract(self, kind: str) -> str:
        """Return the contract that decides which keys a type's scripts get; graders get `output` as a string."""
        if self.generation != Generation.FOURTH:
            return "agentv-2"
        return "agentv-4" if kind.endswith("_grader") else "agentv-3"

    def _other_keys(self, rest: Entries, known: Sequence[str]) -> Entries:
        return {key: value for key, value in rest.items() if key not in known}

    def _judge(self, kind: str, rest: Entries) -> Entries:
        """Return the settings of a judge; keys that AgentV does not know are the configuration of its prompt script."""
        passed_keys = (*_JUDGE_KEYS, "include_trace", "criteria", "allow_unknown", "plain_prompt")
        translated = {key: rest[key] for key in passed_keys if key in rest}
        if "rubrics" in rest:
            translated["rubrics"] = self.rubric_items(rest["rubrics"])
        if "max_steps" in rest:
            self.report.drop(rest["max_steps"], "max_steps", "a judge is one call here")
        config = {**self.rewriter.entries(rest.get("config", Sourced(None)))}
        config |= self._other_keys(rest, (*passed_keys, "rubrics", "max_steps", "prompt", "config", "preprocessors"))
        if "preprocessors" in rest:
            self.report.drop(
                rest["preprocessors"], "preprocessors", "the judge does not read files that an answer names"
            )
        prompt = rest.get("prompt")
        if prompt is not None:
            translated.update(self._prompt(prompt, config, kind))
        if prompt is None or not isinstance(prompt.value, Mapping):
            for key, value in config.items():
                self.report.drop(value, key, "it is passed to prompt scripts, and this judge has none")
        return translated

    def _prompt(self, prompt: Sourced, config: Entries, kind: str) -> Entries:
        """Return the settings for a prompt: a script that prints it, a file, or its text."""
        parts = self.rewriter.entries(prompt)
        if parts:
            script = parts.get("command", parts.get("script"))
            if script is None:
                self.report.refuse(prompt, "`prompt` needs `command`, `script` or a text")
                return {}
            given = {**config, **self.rewriter.entries(parts.get("config", Sourced(None)))}
            translated = {"prompt_script": script, "prompt_contract": Sourced(self._contract(kind), prompt.at)}
            if given:
                translated["prompt_config"] = Sourced(self.rewriter.object(given), prompt.at)
            return translated
        translated = {"prompt": prompt}
        if isinstance(prompt.value, str):
            translated["prompt"] = prompt._replace(value=self._found_prompt(prompt.value))
            self._check_variables(prompt)
        if self.generation.is_foreign:
            translated["allow_unknown"] = Sourced(True, prompt.at)
        if self.generation == Generation.FOURTH:
            translated["plain_prompt"] = Sourced("outcome", prompt.at)
        return translated

    def _found_prompt(self, prompt: str) -> str:
        """Return a prompt; the path of a file that is found in a folder above becomes relative to the eval file."""
        if "\n" in prompt.strip() or "{{" in prompt or not self.folders:
            return prompt
        path = prompt.strip().removeprefix("file://")
        found = self.find(path) if path else None
        if found is None or is_file_path(self.folders[0] / path):
            return prompt
        return f"file://{relpath(found, self.folders[0])}"

    def _check_variables(self, prompt: Sourced) -> None:
        """Warn of unknown variables in a prompt; they stay as text, as in AgentV."""
        text = str(prompt.value)
        found = (
            self.find(text.strip().removeprefix("file://")) if "\n" not in text.strip() and "{{" not in text else None
        )
        if found is not None:
            try:
                text = found.read_text(encoding="utf-8-sig")
            except (OSError, UnicodeDecodeError):  # reported by the reader of the prompt
                return
        for name in variable_names(text):
            if canonical_name(name) not in JUDGE_VARIABLES and not name.startswith("context."):
                near = nearest(name, JUDGE_VARIABLES)
                self.report.warn(prompt.at, f"unknown variable {{{{ {name} }}}}, which stays text", suggestion=near)

    def _rubric(self, rest: Entries) -> Entries:
        items = rest.get("criteria", rest.get("rubrics", rest.get("items")))
        if items is not None and isinstance(items.value, str):
            self.report.warn(items.at, "a text is read as a list of one item; AgentV skips the evaluator")
            items = items._replace(value=self.rewriter.list([items]))
        passed_keys = _JUDGE_KEYS
        translated = {key: rest[key] for key in passed_keys if key in rest}
        if items is not None:
            translated["rubrics"] = self.rubric_items(items)
        if "prompt" in rest:
            translated.update(self._prompt(rest["prompt"], {}, "llm_grader"))
        for key, value in self._other_keys(rest, (*passed_keys, "criteria", "rubrics", "items", "prompt")).items():
            self.report.unknown(value, key, ("criteria", *passed_keys, *_COMMON_KEYS))
        return translated

    def rubric_items(self, sourced: Sourced) -> Sourced:
        """Return a list of rubric items, translated."""
        if not is_list(sourced.value) or not self.generation.is_foreign:
            return sourced
        translated = [self._rubric_item(item, number) for number, item in enumerate(self.rewriter.items(sourced), 1)]
        objects = [
            Sourced(self.rewriter.object(each), each["description"].at) for each in translated if "description" in each
        ]
        return sourced._replace(value=self.rewriter.list(objects))

    def _rubric_item(self, sourced: Sourced, number: int) -> Entries:
        """Return one rubric item. In these files it is required unless it says otherwise."""
        translated: Entries = {"id": Sourced(f"rubric-{number}", sourced.at), "required": Sourced(True, sourced.at)}
        if not isinstance(sourced.value, Mapping):
            return {**translated, "description": sourced}
        given = self.rewriter.entries(sourced)
        names = ("outcome", "expected_outcome", "criteria", "description")
        text = next((given[name] for name in names if name in given), Sourced("", sourced.at))
        translated |= {key: given[key] for key in ("id", "weight", "required", "scale", "min_value") if key in given}
        description = str(text.value).strip()
        if given.get("operator", Sourced(None)).value == "contradiction":
            description = f"The answer contradicts nothing of this: {description}"
        if "score_ranges" in given:
            translated["scale"] = Sourced("points10", given["score_ranges"].at)
            ranges = self._score_range_lines(given["score_ranges"])
            description = f"{description}\n{ranges}".strip()
        translated["description"] = text._replace(value=description)
        self._set_min_value(given, translated)
        known = (*names, *_ITEM_KEYS)
        for key, value in given.items():
            if key not in known:
                self.report.unknown(value, key, known)
        return translated

    def _set_min_value(self, given: Entries, translated: Entries) -> None:
        """Set the lowest value at which an item counts as met: a score of 0 to 10, or a share."""
        tenths, share = given.get("required_min_score"), given.get("min_score")
        if tenths is not None and isinstance(tenths.value, int | float):
            translated["min_value"] = tenths._replace(value=tenths.value / 10)
            translated["required"] = Sourced(True, tenths.at)
        elif share is not None:
            translated["min_value"] = share

    def _score_range_lines(self, sourced: Sourced) -> str:
        """Return the meanings of the scores of an item as lines, from a list or a map of lowest scores."""
        if isinstance(sourced.value, Mapping):
            listed = sorted((_whole(key), str(text)) for key, text in sourced.value.items())
            ends = [low - 1 for low, _ in listed[1:]] + [10]
            return "\n".join(_range_line(low, high, text) for (low, text), high in zip(listed, ends, strict=True))
        lines = []
        for entry in self.rewriter.items(sourced):
            given = self.rewriter.entries(entry)
            bounds = given.get("score_range", given.get("range", Sourced(None))).value
            text = next(
                (given[name].value for name in ("outcome", "expected_outcome", "description") if name in given), ""
            )
            low, high = bounds if is_list(bounds) and len(bounds) == 2 else (None, None)  # noqa: PLR2004 - from, to
            if low is None or high is None:
                self.report.refuse(entry, "an entry of `score_ranges` needs `score_range: [from, to]` and `outcome`")
                continue
            lines.append(_range_line(_whole(low), _whole(high), str(text)))
        return "\n".join(lines)

    def _composite(self, rest: Entries, sourced: Sourced) -> Entries:
        translated: Entries = {}
        listed = next((rest[key] for key in EVALUATOR_KEYS if key in rest), None)
        names: list[str] = []
        if listed is not None:
            members = self.numbered(map(self._member, self.translate_list(listed)))
            named = [each.entries.get("name") for each in members if isinstance(each, NewObject)]
            names = [str(name.value) for name in named if name is not None]
            translated["evaluators"] = listed._replace(value=self.new_list(members))
        translated["aggregator"] = self._aggregator(rest.get("aggregator", sourced._replace(value={})), names)
        for key, value in self._other_keys(rest, (*EVALUATOR_KEYS, "aggregator")).items():
            self.report.unknown(value, key, ("assertions", "aggregator", *_COMMON_KEYS))
        return translated

    def _member(self, given: NewObject | Sourced) -> NewObject | Sourced:
        """Return a member of a composite without `required`, which AgentV ignores there."""
        if not isinstance(given, NewObject) or "required" not in given.entries:
            return given
        self.report.drop(given.entries["required"], "required", "members of a composite have no requirements")
        entries = {key: value for key, value in given.entries.items() if key not in ("required", "unmet")}
        return NewObject(entries, given.at)

    def _aggregator(self, sourced: Sourced, names: Sequence[str]) -> Sourced:
        """Return the aggregator of a composite. Members not in its `weights` count 1; their own weights are ignored."""
        translated = self.rewriter.entries(sourced)
        if not translated and not isinstance(sourced.value, Mapping):
            return sourced
        written = str(translated.get("type", Sourced("weighted_average")).value).replace("-", "_")
        kind = {"code_grader": "code_judge", "llm_grader": "llm_judge"}.get(written, written)
        if kind == "weighted_average":
            weights = self.rewriter.entries(translated.get("weights", Sourced(None)))
            each = {name: weights.get(name, Sourced(1.0, sourced.at)) for name in names}
            translated["weights"] = Sourced(self.rewriter.object({**weights, **each}), sourced.at)
        elif kind == "threshold" and "at_least" not in translated:
            kind = "pass_share"
        elif kind == "code_judge":
            script = self._command_line(translated.get("path"))
            if script is not None:
                del translated["path"]
                translated["script"] = script
            contract = "agentv-4" if self.generation == Generation.FOURTH else "agentv-2"
            translated["contract"] = Sourced(contract, sourced.at)
        elif kind == "llm_judge":
            translated["allow_unknown"] = Sourced(True, sourced.at)
        translated["type"] = translated.get("type", sourced)._replace(value=kind)
        return sourced._replace(value=self.rewriter.object(translated))

    def _trajectory(self, rest: Entries, sourced: Sourced) -> Entries:
        """Return the settings of a check of tool calls, with the scoring of the generation."""
        passed_keys = ("mode", "minimums", "maximums", "forbidden", "expected", "args_match")
        translated = {key: rest[key] for key in passed_keys if key in rest}
        default = translated.pop("args_match", None)
        if "expected" in translated:
            limits = (item.value for item in self.rewriter.items(translated["expected"]))
            if any(isinstance(item, Mapping) and "max_duration_ms" in item for item in limits):
                translated["unknown_duration"] = Sourced("skip", sourced.at)
            translated["expected"] = self._expected_calls(translated["expected"], default)
        default_mode = Sourced("in_order" if "expected" in translated else "any_order")
        if translated.get("mode", default_mode).value != "any_order":
            translated["score"] = rest.get("score", Sourced("matched", sourced.at))
            translated.update(self._missing_trace_setting(sourced))
        for key, value in self._other_keys(rest, (*passed_keys, "score")).items():
            self.report.unknown(value, key, (*passed_keys, *_COMMON_KEYS))
        return translated

    def _missing_trace_setting(self, sourced: Sourced) -> Entries:
        """Return the setting for answers without a trace, which AgentV 4 treats like answers without tool calls."""
        return {"without_messages": Sourced("no_calls", sourced.at)} if self.generation == Generation.FOURTH else {}

    def _expected_calls(self, sourced: Sourced, default: Sourced | None) -> Sourced:
        if not is_list(sourced.value):
            return sourced
        translated = [self._expected_call(item, default) for item in self.rewriter.items(sourced)]
        return sourced._replace(value=self.rewriter.list(translated))

    def _expected_call(self, sourced: Sourced, default: Sourced | None) -> Sourced:
        """Return one expected call. Its `args` are the values to expect, unless `input` is given."""
        given = self.rewriter.entries(sourced)
        if not given:
            return sourced
        if "input" in given and self.generation.is_foreign:
            self.report.drop(given.pop("input"), "input", "AgentV compares `args`, not `input`")
        translated: Entries = {key: given[key] for key in ("tool", "input") if key in given}
        args, matching = given.get("args"), given.get("args_match", given.get("argsMatch", default))
        if args is not None and ("input" in given or isinstance(args.value, str)) and args.value != "any":
            translated["args"] = args
        elif args is not None and args.value != "any":
            translated["input"] = args
            translated["args"] = self._args_matching(args, matching)
        if "max_duration_ms" in given:
            translated["max_duration_ms"] = given["max_duration_ms"]
        known = ("tool", "input", "args", "args_match", "argsMatch", "max_duration_ms", "output")
        for key, value in self._other_keys(given, known).items():
            if self.generation.is_foreign:
                self.report.unknown(value, key, known)
            else:
                translated[key] = value
        return sourced._replace(value=self.rewriter.object(translated))

    def _args_matching(self, args: Sourced, given: Sourced | None) -> Sourced:
        if given is None:
            own = {Generation.SECOND: "named_keys", Generation.FOURTH: "exact"}.get(self.generation, "subset")
            return Sourced(own, args.at)
        word = given.value
        return given._replace(value=_ARGS_MATCH.get(word, word)) if isinstance(word, str) else given

    def numbered(self, evaluators: Iterable[NewObject | Sourced]) -> list[NewObject | Sourced]:
        """Return the evaluators with a number after names that repeat."""
        translated: list[NewObject | Sourced] = []
        seen: set[str] = set()
        for each in evaluators:
            if isinstance(each, NewObject) and isinstance(each.entries.get("name", Sourced(None)).value, str):
                given = each.entries["name"]
                name = base = str(given.value)
                number = 1
                while name in seen:
                    number += 1
                    name = f"{base}-{number}"
                seen.add(name)
                each = NewObject({**each.entries, "name": given._replace(value=name)}, each.at)  # noqa: PLW2901 - renamed
            translated.append(each)
        return translated

    def new_list(self, evaluators: Sequence[NewObject | Sourced]) -> JsonValue:
        """Return evaluators as a list of a document."""
        objects = [
            Sourced(self.rewriter.object(each.entries), each.at) if isinstance(each, NewObject) else each
            for each in evaluators
        ]
        return self.rewriter.list(objects)


def _whole(value: object) -> int:
    try:
        return round(float(str(value)))
    except ValueError:
        return 0


def _range_line(low: int, high: int, text: str) -> str:
    span = f"{low}" if low >= high else f"{low} to {high}"
    return f"{span}: {text.strip()}"
