"""Evaluators of AgentV 1.5 to 4.42 translated into ours: types, settings, and their meaning in AgentV."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from os.path import relpath
from pathlib import Path

from msgspec import Struct

from agentv.loading.files.places import is_file_path
from agentv.loading.importers.generations import Generation
from agentv.loading.importers.translation import Entries, Made, Report, Rewriter, Taken, is_list
from agentv.loading.models.reader import open_yaml
from agentv.scoring.keys.identity import slug
from agentv.templating.variables import JUDGE_VARIABLES, canonical_name, variable_names
from agentv.types.errors import EvalFileError, nearest
from agentv.types.json_value import JsonValue

EVALUATOR_KEYS = ("assertions", "assert", "evaluators")
"""The keys of lists of evaluators, the first that is present counts."""
_TYPES = {
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
_COMMON = ("name", "type", "weight", "negate", "required", "min_score")
_COMMON_OWN_KEYS = ("timeout_seconds", "criterion", "source", "window", "per_turn", "aggregate", "unmet")
"""Our own common keys, which no version of AgentV had and which keep their meaning."""
TEXTS_NAME = "criteria"
"""The name of the rubric made from the plain strings in a list of evaluators."""

_PASS = 0.8
_MAX_INCLUDES = 3
_BOUNDS = {
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
_PLAIN = {
    "regex": {"value": "pattern", "pattern": "pattern", "flags": "flags", "expect": "expect"},
    "field_accuracy": {"fields": "fields", "aggregation": "aggregation"},
    "skill_trigger": {"skill": "skill", "should_trigger": "should_trigger"},
    "trigger_judge": {"skill": "skill", "should_trigger": "should_trigger"},
    "is_json": {"schema": "schema", "fenced": "fenced"},
}
"""The types whose settings only have other names in AgentV, with our names."""
_ARGS_MATCH = {"exact": "exact", "ignore": "ignore", "superset": "named_keys", "subset": "known_keys"}


class EvaluatorTranslator(Struct):
    """Translates the evaluators of one file. `folders` are those that templates and prompts are searched in."""

    generation: Generation
    rewriter: Rewriter
    report: Report
    folders: Sequence[Path]
    is_known_type: Callable[[str], bool]

    def first_list(self, holder: Entries, execution: Entries) -> Taken | None:
        """Return the list of evaluators that counts in a case or suite; the others get a warning."""
        places = [holder.get("assertions"), holder.get("assert"), execution.get("assertions"), execution.get("assert")]
        places += [execution.get("evaluators"), holder.get("evaluators")]
        found = [taken for taken in places if taken is not None]
        for other in found[1:]:
            self.report.warn(other.at, f"this list of evaluators is ignored, as {self.report.name} does")
        return found[0] if found else None

    def all_in(self, taken: Taken) -> list[Made | Taken]:
        """Return the evaluators of a list, translated; other entries are left for the reader of the file to report."""
        if not is_list(taken.value):
            return [taken]
        made: list[Made | Taken] = []
        texts: list[Taken] = []
        place = 0
        for item in self._included(self.rewriter.items(taken), ()):
            if isinstance(item.value, str) and self.generation == Generation.FOURTH:
                place = place if texts else len(made)
                texts.append(item)
            elif isinstance(item.value, Mapping):
                made.append(Made(self.one(item), item.at))
            else:
                made.append(item)
        if texts:
            made.insert(place, Made(self._of_texts(texts), texts[0].at))
        return made

    def _of_texts(self, texts: Sequence[Taken]) -> Entries:
        """Return one rubric for the plain texts of a list; each has the weight of an evaluator."""
        items = [self._item(text, number) for number, text in enumerate(texts, 1) if str(text.value).strip()]
        at = texts[0].at
        rubrics = self.rewriter.list([Taken(self.rewriter.object(each), at) for each in items])
        return {
            "name": Taken(TEXTS_NAME, at),
            "type": Taken("rubric", at),
            "weight": Taken(len(items), at),
            "rubrics": Taken(rubrics, at),
        }

    def _included(self, items: Iterable[Taken], chain: tuple[str, ...]) -> Iterator[Taken]:
        """Yield the entries of a list, with each `include` replaced by the entries of its template."""
        for item in items:
            name = item.value.get("include") if isinstance(item.value, Mapping) and len(item.value) == 1 else None
            if isinstance(name, str):
                yield from self._template(name, item, chain)
            else:
                yield item

    def _template(self, name: str, item: Taken, chain: tuple[str, ...]) -> Iterator[Taken]:
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
            self.rewriter.keep(value)
            self.report.files.append(found)
            yield from self._included((Taken(entry, item.at) for entry in listed), (*chain, str(found)))

    def find(self, path: str) -> Path | None:
        """Return the first file of that relative path in the folders; None if there is none."""
        return next((folder / path for folder in self.folders if is_file_path(folder / path)), None)

    def one(self, taken: Taken) -> Entries:
        """Return one evaluator, translated."""
        given = self.rewriter.entries(taken)
        written = given.get("type", Taken(None)).value
        if not isinstance(written, str):
            return given
        kind = _TYPES.get(written.replace("-", "_"))
        if not self.generation.is_foreign and kind in (None, written):
            return self._of_first(written, given)
        if kind is None:
            return self._other(written, given, taken)
        made = self._common(given, taken, written)
        rest = {key: value for key, value in given.items() if key not in (*_COMMON, *_COMMON_OWN_KEYS)}
        made["type"] = given["type"]._replace(value=kind)
        made.update(self._settings(written.replace("-", "_"), rest, taken))
        return made

    def _other(self, written: str, given: Entries, taken: Taken) -> Entries:
        if not self.is_known_type(written) and self.generation.is_foreign:
            message = (
                f"the type {written!r} is neither built in nor read from .agentv/assertions or .agentv/graders here"
            )
            advice = "give it as code-grader: {type: code-grader, command: [...]}"
            near = nearest(written.replace("-", "_"), _TYPES)
            near = near and near.replace("_", "-")
            self.report.refuse(given["type"], message, advice=advice, suggestion=near)
            given["type"] = Taken("is_json", taken.at)
            return {"name": Taken(written, taken.at), "type": given["type"]}
        return self._named(given, taken, written)

    def _of_first(self, kind: str, given: Entries) -> Entries:
        """Return an evaluator of AgentV 1.5, which has our form except for a few keys."""
        if kind == "tool_trajectory" and "expected" in given:
            given["expected"] = self._expected(given["expected"], None)
        if kind == "composite" and is_list(given.get("evaluators", Taken(None)).value):
            members = self.all_in(given["evaluators"])
            given["evaluators"] = given["evaluators"]._replace(value=self.made_list(members))
        aggregator = self.rewriter.entries(given.get("aggregator", Taken(None))) if kind == "composite" else {}
        script = self._command_line(aggregator.get("path"))
        if script is not None:
            del aggregator["path"]
            made = self.rewriter.object({**aggregator, "script": script})
            given["aggregator"] = given["aggregator"]._replace(value=made)
        return given

    def _command_line(self, path: Taken | None) -> Taken | None:
        """Return the `path` of an aggregator that is a command line; None for the path of a file."""
        if path is None or not isinstance(path.value, str) or self.find(path.value) is not None:
            return None
        return path if len(path.value.split()) > 1 else None

    def _common(self, given: Entries, taken: Taken, written: str) -> Entries:
        made = {key: given[key] for key in ("name", "weight", "negate", *_COMMON_OWN_KEYS) if key in given}
        made = self._named(made, taken, self._made_name(written, given))
        required, least = given.get("required"), given.get("min_score")
        if required is None or required.value is False:
            if least is not None:
                self.report.drop(least, "min_score", "it is the limit of `required`, which is not set")
        else:
            limit = least if required.value is True and least is not None else required
            if limit.value is True:
                limit = limit._replace(value=_PASS)
            made["required"] = limit
            if self.generation == Generation.FOURTH:
                made["unmet"] = Taken("zero", required.at)
        return made

    def _named(self, given: Entries, taken: Taken, name: str) -> Entries:
        return {"name": Taken(name, taken.at), **given}

    def _made_name(self, written: str, given: Entries) -> str:
        value = given.get("value", given.get("skill", Taken(None))).value
        first = value[0] if is_list(value) and value else value
        words = slug(first) if isinstance(first, str) else ""
        return f"{written}-{words}" if words else written

    def _settings(self, kind: str, rest: Entries, taken: Taken) -> Entries:
        if kind in _BOUNDS:
            return {**self._known(rest, _BOUNDS[kind]), "unknown": Taken("unmet", taken.at), **self._silent(taken)}
        if kind in _PLAIN:
            return self._known(rest, _PLAIN[kind])
        match kind:
            case "code_grader" | "code_judge":
                return self._code(kind, rest, taken)
            case "llm_grader" | "llm_judge":
                return self._judge(kind, rest)
            case "rubrics" | "rubric":
                return self._rubric(rest)
            case "composite":
                return self._composite(rest, taken)
            case "tool_trajectory":
                return self._trajectory(rest, taken)
            case _:
                return self._text(kind, rest, taken)

    def _text(self, kind: str, rest: Entries, taken: Taken) -> Entries:
        made = self._known(rest, {"value": "value", "case_sensitive": "case_sensitive", "expect": "expect"})
        if kind.endswith("_all"):
            made["expect"] = Taken("all", taken.at)
        if kind.startswith("icontains"):
            made["case_sensitive"] = Taken(False, taken.at)
        return made

    def _known(self, rest: Entries, names: Mapping[str, str]) -> Entries:
        """Return the settings under our names; other keys have no effect, with a warning."""
        for key, taken in rest.items():
            if key not in names and key != "config":
                self.report.unknown(taken, key, [*names, *_COMMON])
        return {names[key]: taken for key, taken in rest.items() if key in names}

    def _code(self, kind: str, rest: Entries, taken: Taken) -> Entries:
        """Return the settings of a code judge; keys that AgentV does not know are passed to the script."""
        script = rest.get("command", rest.get("script"))
        own = ("command", "script", "cwd", "target", "config", "python", "timeout_seconds", "contract")
        made: Entries = {key: rest[key] for key in ("cwd", "python", "contract") if key in rest}
        if script is not None:
            made["script"] = script
        elif "python" not in rest:
            self.report.refuse(taken, "a code grader needs `command`")
            made["script"] = Taken("true", taken.at)
        if "target" in rest:
            reason = "code graders get no access to a model here (AGENTV_TARGET_PROXY_URL is not set)"
            self.report.drop(rest["target"], "target", reason)
        config = {**self.rewriter.entries(rest.get("config", Taken(None))), **self._others(rest, own)}
        if config:
            made["config"] = Taken(self.rewriter.object(config), taken.at)
        return {"contract": Taken(self._contract(kind), taken.at), **made}

    def _contract(self, kind: str) -> str:
        """Return the keys that scripts of a type read; since `output` is a string, scripts are called graders."""
        if self.generation != Generation.FOURTH:
            return "agentv-2"
        return "agentv-4" if kind.endswith("_grader") else "agentv-3"

    def _others(self, rest: Entries, own: Sequence[str]) -> Entries:
        return {key: value for key, value in rest.items() if key not in own}

    def _judge(self, kind: str, rest: Entries) -> Entries:
        kept = (*_JUDGE_KEYS, "include_trace", "criteria", "allow_unknown", "plain_prompt")
        made = {key: rest[key] for key in kept if key in rest}
        if "rubrics" in rest:
            made["rubrics"] = self.items(rest["rubrics"])
        if "max_steps" in rest:
            self.report.drop(rest["max_steps"], "max_steps", "a judge is one call here")
        config = {**self.rewriter.entries(rest.get("config", Taken(None)))}
        config |= self._others(rest, (*kept, "rubrics", "max_steps", "prompt", "config", "preprocessors"))
        if "preprocessors" in rest:
            self.report.drop(rest["preprocessors"], "preprocessors", "files of an answer are judged unread")
        prompt = rest.get("prompt")
        if prompt is not None:
            made.update(self._prompt(prompt, config, kind))
        if prompt is None or not isinstance(prompt.value, Mapping):
            for key, value in config.items():
                self.report.drop(value, key, "it is passed to prompt scripts, and this judge has none")
        return made

    def _prompt(self, prompt: Taken, config: Entries, kind: str) -> Entries:
        """Return the settings for a prompt: a script that prints it, a file, or its text."""
        parts = self.rewriter.entries(prompt)
        if parts:
            script = parts.get("command", parts.get("script"))
            if script is None:
                self.report.refuse(prompt, "`prompt` needs `command`, `script` or a text")
                return {}
            given = {**config, **self.rewriter.entries(parts.get("config", Taken(None)))}
            made = {"prompt_script": script, "prompt_contract": Taken(self._contract(kind), prompt.at)}
            if given:
                made["prompt_config"] = Taken(self.rewriter.object(given), prompt.at)
            return made
        made = {"prompt": prompt}
        if isinstance(prompt.value, str):
            made["prompt"] = prompt._replace(value=self._found_prompt(prompt.value))
            self._check_variables(prompt)
        if self.generation.is_foreign:
            made["allow_unknown"] = Taken(True, prompt.at)
        if self.generation == Generation.FOURTH:
            made["plain_prompt"] = Taken("outcome", prompt.at)
        return made

    def _found_prompt(self, prompt: str) -> str:
        """Return a prompt; the path of a file that is found in a folder above becomes relative to the eval file."""
        if "\n" in prompt.strip() or "{{" in prompt or not self.folders:
            return prompt
        path = prompt.strip().removeprefix("file://")
        found = self.find(path) if path else None
        if found is None or is_file_path(self.folders[0] / path):
            return prompt
        return f"file://{relpath(found, self.folders[0])}"

    def _check_variables(self, prompt: Taken) -> None:
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
            self.report.warn(items.at, "a text is read as a list of one item; AgentV leaves the evaluator out")
            items = items._replace(value=self.rewriter.list([items]))
        kept = _JUDGE_KEYS
        made = {key: rest[key] for key in kept if key in rest}
        if items is not None:
            made["rubrics"] = self.items(items)
        if "prompt" in rest:
            made.update(self._prompt(rest["prompt"], {}, "llm_grader"))
        for key, value in self._others(rest, (*kept, "criteria", "rubrics", "items", "prompt")).items():
            self.report.unknown(value, key, ("criteria", *kept, *_COMMON))
        return made

    def items(self, taken: Taken) -> Taken:
        """Return a list of rubric items, translated."""
        if not is_list(taken.value) or not self.generation.is_foreign:
            return taken
        made = [self._item(item, number) for number, item in enumerate(self.rewriter.items(taken), 1)]
        objects = [Taken(self.rewriter.object(each), each["description"].at) for each in made if "description" in each]
        return taken._replace(value=self.rewriter.list(objects))

    def _item(self, taken: Taken, number: int) -> Entries:
        """Return one rubric item. In these files it is required unless it says otherwise."""
        made: Entries = {"id": Taken(f"rubric-{number}", taken.at), "required": Taken(True, taken.at)}
        if not isinstance(taken.value, Mapping):
            return {**made, "description": taken}
        given = self.rewriter.entries(taken)
        names = ("outcome", "expected_outcome", "criteria", "description")
        text = next((given[name] for name in names if name in given), Taken("", taken.at))
        made |= {key: given[key] for key in ("id", "weight", "required", "scale", "min_value") if key in given}
        description = str(text.value).strip()
        if given.get("operator", Taken(None)).value == "contradiction":
            description = f"The answer contradicts nothing of this: {description}"
        if "score_ranges" in given:
            made["scale"] = Taken("points10", given["score_ranges"].at)
            ranges = self._ranges(given["score_ranges"])
            description = f"{description}\n{ranges}".strip()
        made["description"] = text._replace(value=description)
        self._minimum(given, made)
        known = (*names, *_ITEM_KEYS)
        for key, value in given.items():
            if key not in known:
                self.report.unknown(value, key, known)
        return made

    def _minimum(self, given: Entries, made: Entries) -> None:
        """Set the lowest value at which an item counts as met: a score of 0 to 10, or a share."""
        tenths, share = given.get("required_min_score"), given.get("min_score")
        if tenths is not None and isinstance(tenths.value, int | float):
            made["min_value"] = tenths._replace(value=tenths.value / 10)
            made["required"] = Taken(True, tenths.at)
        elif share is not None:
            made["min_value"] = share

    def _ranges(self, taken: Taken) -> str:
        """Return the meanings of the scores of an item as lines, from a list or a map of lowest scores."""
        if isinstance(taken.value, Mapping):
            listed = sorted((_whole(key), str(text)) for key, text in taken.value.items())
            ends = [low - 1 for low, _ in listed[1:]] + [10]
            return "\n".join(_range_line(low, high, text) for (low, text), high in zip(listed, ends, strict=True))
        lines = []
        for entry in self.rewriter.items(taken):
            given = self.rewriter.entries(entry)
            bounds = given.get("score_range", given.get("range", Taken(None))).value
            text = next(
                (given[name].value for name in ("outcome", "expected_outcome", "description") if name in given), ""
            )
            low, high = bounds if is_list(bounds) and len(bounds) == 2 else (None, None)  # noqa: PLR2004 - from, to
            if low is None or high is None:
                self.report.refuse(entry, "an entry of `score_ranges` needs `score_range: [from, to]` and `outcome`")
                continue
            lines.append(_range_line(_whole(low), _whole(high), str(text)))
        return "\n".join(lines)

    def _composite(self, rest: Entries, taken: Taken) -> Entries:
        made: Entries = {}
        listed = next((rest[key] for key in EVALUATOR_KEYS if key in rest), None)
        names: list[str] = []
        if listed is not None:
            members = self.numbered(map(self._member, self.all_in(listed)))
            named = [each.entries.get("name") for each in members if isinstance(each, Made)]
            names = [str(name.value) for name in named if name is not None]
            made["evaluators"] = listed._replace(value=self.made_list(members))
        made["aggregator"] = self._aggregator(rest.get("aggregator", taken._replace(value={})), names)
        for key, value in self._others(rest, (*EVALUATOR_KEYS, "aggregator")).items():
            self.report.unknown(value, key, ("assertions", "aggregator", *_COMMON))
        return made

    def _member(self, given: Made | Taken) -> Made | Taken:
        """Return a member of a composite without `required`, which AgentV ignores there."""
        if not isinstance(given, Made) or "required" not in given.entries:
            return given
        self.report.drop(given.entries["required"], "required", "members of a composite have no requirements")
        left = {key: value for key, value in given.entries.items() if key not in ("required", "unmet")}
        return Made(left, given.at)

    def _aggregator(self, taken: Taken, names: Sequence[str]) -> Taken:
        """Return how members are combined. A member without a weight here counts 1; its own weight is ignored."""
        made = self.rewriter.entries(taken)
        if not made and not isinstance(taken.value, Mapping):
            return taken
        written = str(made.get("type", Taken("weighted_average")).value).replace("-", "_")
        kind = {"code_grader": "code_judge", "llm_grader": "llm_judge"}.get(written, written)
        if kind == "weighted_average":
            weights = self.rewriter.entries(made.get("weights", Taken(None)))
            each = {name: weights.get(name, Taken(1.0, taken.at)) for name in names}
            made["weights"] = Taken(self.rewriter.object({**weights, **each}), taken.at)
        elif kind == "threshold" and "at_least" not in made:
            kind = "pass_share"
        elif kind == "code_judge":
            script = self._command_line(made.get("path"))
            if script is not None:
                del made["path"]
                made["script"] = script
            contract = "agentv-4" if self.generation == Generation.FOURTH else "agentv-2"
            made["contract"] = Taken(contract, taken.at)
        elif kind == "llm_judge":
            made["allow_unknown"] = Taken(True, taken.at)
        made["type"] = made.get("type", taken)._replace(value=kind)
        return taken._replace(value=self.rewriter.object(made))

    def _trajectory(self, rest: Entries, taken: Taken) -> Entries:
        kept = ("mode", "minimums", "maximums", "forbidden", "expected", "args_match")
        made = {key: rest[key] for key in kept if key in rest}
        default = made.pop("args_match", None)
        if "expected" in made:
            limits = (item.value for item in self.rewriter.items(made["expected"]))
            if any(isinstance(item, Mapping) and "max_duration_ms" in item for item in limits):
                made["unknown_duration"] = Taken("skip", taken.at)
            made["expected"] = self._expected(made["expected"], default)
        default_mode = Taken("in_order" if "expected" in made else "any_order")
        if made.get("mode", default_mode).value != "any_order":
            made["score"] = rest.get("score", Taken("matched", taken.at))
            made.update(self._silent(taken))
        for key, value in self._others(rest, (*kept, "score")).items():
            self.report.unknown(value, key, (*kept, *_COMMON))
        return made

    def _silent(self, taken: Taken) -> Entries:
        """Return the setting for an answer without a trace, which AgentV 4 treats as an answer without tool calls."""
        return {"without_messages": Taken("no_calls", taken.at)} if self.generation == Generation.FOURTH else {}

    def _expected(self, taken: Taken, default: Taken | None) -> Taken:
        if not is_list(taken.value):
            return taken
        made = [self._call(item, default) for item in self.rewriter.items(taken)]
        return taken._replace(value=self.rewriter.list(made))

    def _call(self, taken: Taken, default: Taken | None) -> Taken:
        """Return one expected call. Its `args` are the values to expect, unless `input` is given."""
        given = self.rewriter.entries(taken)
        if not given:
            return taken
        if "input" in given and self.generation.is_foreign:
            self.report.drop(given.pop("input"), "input", "AgentV compares `args`, not `input`")
        made: Entries = {key: given[key] for key in ("tool", "input") if key in given}
        args, matching = given.get("args"), given.get("args_match", given.get("argsMatch", default))
        if args is not None and ("input" in given or isinstance(args.value, str)) and args.value != "any":
            made["args"] = args
        elif args is not None and args.value != "any":
            made["input"] = args
            made["args"] = self._matching(args, matching)
        if "max_duration_ms" in given:
            made["max_duration_ms"] = given["max_duration_ms"]
        known = ("tool", "input", "args", "args_match", "argsMatch", "max_duration_ms", "output")
        for key, value in self._others(given, known).items():
            if self.generation.is_foreign:
                self.report.unknown(value, key, known)
            else:
                made[key] = value
        return taken._replace(value=self.rewriter.object(made))

    def _matching(self, args: Taken, given: Taken | None) -> Taken:
        if given is None:
            own = {Generation.SECOND: "named_keys", Generation.FOURTH: "exact"}.get(self.generation, "subset")
            return Taken(own, args.at)
        word = given.value
        return given._replace(value=_ARGS_MATCH.get(word, word)) if isinstance(word, str) else given

    def numbered(self, evaluators: Iterable[Made | Taken]) -> list[Made | Taken]:
        """Return the evaluators with a number after names that repeat."""
        made: list[Made | Taken] = []
        seen: set[str] = set()
        for each in evaluators:
            if isinstance(each, Made) and isinstance(each.entries.get("name", Taken(None)).value, str):
                given = each.entries["name"]
                name = base = str(given.value)
                number = 1
                while name in seen:
                    number += 1
                    name = f"{base}-{number}"
                seen.add(name)
                each = Made({**each.entries, "name": given._replace(value=name)}, each.at)  # noqa: PLW2901 - renamed
            made.append(each)
        return made

    def made_list(self, evaluators: Sequence[Made | Taken]) -> JsonValue:
        """Return evaluators as a list of a document."""
        objects = [
            Taken(self.rewriter.object(each.entries), each.at) if isinstance(each, Made) else each
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
