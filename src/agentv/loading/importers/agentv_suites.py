"""Eval files of AgentV 1.5 to 4.42 translated into ours: the top level and the cases."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from msgspec import Struct, field

from agentv.loading.files.documents import Document, Marks
from agentv.loading.importers.agentv_evaluators import TEXTS_NAME, EvaluatorTranslator
from agentv.loading.importers.agentv_workspace import translate_workspace
from agentv.loading.importers.case_texts import with_variables
from agentv.loading.importers.generations import CASE_LISTS, DIALECT_KEY, Generation
from agentv.loading.importers.translation import Entries, Made, Report, Rewriter, Taken, is_list
from agentv.loading.models.reader import Reader
from agentv.loading.suites.models import CaseExecutionModel, CaseModel, SuiteExecutionModel, SuiteModel
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.messages_json import compact_json, pretty_json

ABOUT_KEYS = ("version", "author", "license", "requires", "category")
"""Keys that describe a file; they are stored with the run."""
_SCHEMA_START = "agentv-eval"
_UNREAD_FILES = "files of an answer are judged unread"
_SUITE_WITHOUT_EFFECT = {"hooks": "hooks of whole suites are not run", "preprocessors": _UNREAD_FILES}
_EXECUTION_WITHOUT_EFFECT = {
    "cache": "use --cache",
    "cache_path": "use --cache",
    "fail_on_error": "use --max-errors",
}
_CASE_IGNORED = ("description", "note", "suite")
_REFERENCE_ANSWER = "the reference answer comes from the expected messages, as in AgentV"
_CONVERSATION = "conversation"
_TURN_RULES = {
    "aggregation": "turn_aggregate",
    "on_turn_failure": "on_turn_failure",
    "window_size": "turn_window",
}
_TURN_WORDS = {"aggregation": ("mean", "min", "max"), "on_turn_failure": ("continue", "stop")}
_TURN_KEYS = ("input", "expected_output", "assertions")
_ORDER_KEYS = ("depends_on", "on_dependency_failure")
_TEXT_KEYS = ("criteria", "input", "input_files", "expected_output", "turns")
_PASS = 0.8
_MADE_KEYS = ("execution", "evaluators", "metadata", "turns")
"""Our keys that are made from several keys of AgentV."""

_SUITE_KEYS = (
    *CASE_LISTS,
    "name",
    "metadata",
    "governance",
    "assertions",
    "assert",
    "input",
    "input_files",
    "execution",
    "workspace",
)
_CASE_KEYS = (
    *(*_TEXT_KEYS, "assertions", "assert", "vars", "execution", "workspace", "mode"),
    *(*_TURN_RULES, *_ORDER_KEYS, *_CASE_IGNORED),
)


class SuiteDefaults(Struct, frozen=True):
    """The values of the top level of a file that apply to each of its cases."""

    metadata: JsonObject = field(default_factory=dict)
    evaluators: Sequence[Made | Taken] = ()
    messages: Sequence[Taken] = ()
    files: Taken | None = None
    workspace: Taken | None = None


def without_places(defaults: SuiteDefaults) -> SuiteDefaults:
    """Return the defaults for cases of other files, without their positions, which are in this file."""
    return SuiteDefaults(
        metadata=defaults.metadata,
        evaluators=[
            Made({key: Taken(taken.value) for key, taken in each.entries.items()}, None)
            if isinstance(each, Made)
            else Taken(each.value)
            for each in defaults.evaluators
        ],
        messages=[Taken(taken.value) for taken in defaults.messages],
        files=None if defaults.files is None else Taken(defaults.files.value),
        workspace=None if defaults.workspace is None else Taken(defaults.workspace.value),
    )


class FileTranslator:
    """Translates one document of a generation. `folders` are the file's own and those above it."""

    def __init__(
        self,
        source: Reader,
        generation: Generation,
        *,
        folders: Sequence[Path] = (),
        is_known_type: Callable[[str], bool] = lambda _: True,
        defaults: SuiteDefaults | None = None,
    ) -> None:
        self.generation = generation
        self.report = Report(source, generation.title)
        self.defaults = defaults or SuiteDefaults()
        self.about: dict[str, JsonValue] = {}
        self._rewriter = Rewriter(source.document)
        self._source = source
        self._folder = folders[0] if folders else Path()
        self._evaluators = EvaluatorTranslator(
            generation=generation,
            rewriter=self._rewriter,
            report=self.report,
            folders=folders,
            is_known_type=is_known_type,
        )

    def suite(self) -> Document:
        """Translate an eval file, or the side file of a dataset; the defaults for its cases are set."""
        given = self._entries(Taken(self._source.document.value, ()))
        if not self.generation.is_foreign:
            return self._rewriter.document(self._rewriter.object(self._first_suite(given)))
        execution = self._entries(given.get("execution", Taken(None)))
        made: Entries = {}
        self.defaults = self._defaults(given, execution)
        for key, taken in given.items():
            self._suite_key(key, taken, made)
        run = self._suite_execution(execution)
        if self.defaults.workspace is not None:
            self._workspace(self.defaults.workspace, run)
        if self.defaults.evaluators:
            listed = self._evaluators.made_list(self.defaults.evaluators)
            run["evaluators"] = Taken(listed, self._list_place(given, execution))
        if self.generation == Generation.FOURTH:
            run.setdefault("pass_score", Taken(_PASS, ()))
        if run:
            made["execution"] = Taken(self._rewriter.object(run), given.get("execution", Taken(None, ())).at)
        self._trials(execution, made)
        return self._rewriter.document(self._rewriter.object(made))

    def cases(self, value: JsonValue) -> Document:
        """Translate a file of cases of a suite: a list, an object that contains a list, or one case."""
        root = Taken(value, ())
        if is_list(value):
            return self._rewriter.document(self._case_list(root).value)
        given = self._entries(root)
        key = next((key for key in CASE_LISTS if key in given), None)
        if key is None:
            return self._rewriter.document(self.case(root).value)
        return self._rewriter.document(self._rewriter.object({"evalcases": self._case_list(given[key])}))

    def _entries(self, taken: Taken) -> Entries:
        return self._rewriter.entries(taken)

    def _list_place(self, given: Entries, execution: Entries) -> "tuple[str | int, ...] | None":
        places = [holder.get(key) for holder in (given, execution) for key in ("assertions", "assert", "evaluators")]
        return next((taken.at for taken in places if taken is not None), ())

    def _first_suite(self, given: Entries) -> Entries:
        made = dict(given)
        made.pop(DIALECT_KEY, None)
        schema = made.get("$schema")
        if schema is not None and not str(schema.value).startswith(_SCHEMA_START):
            self.report.ignore()
            del made["$schema"]
        for key in CASE_LISTS:
            if key in made:
                made[key] = self._case_list(made[key])
        execution = self._entries(made.get("execution", Taken(None)))
        if "evaluators" in execution:
            made["execution"] = made["execution"]._replace(value=self._rewriter.object(self._own_lists(execution)))
        return self._own_lists(made)

    def _own_lists(self, holder: Entries) -> Entries:
        """Return a case, suite or `execution` of our own form with its evaluators translated."""
        listed = holder.get("evaluators")
        if listed is None or not is_list(listed.value):
            return holder
        made = self._evaluators.made_list(self._evaluators.all_in(listed))
        return {**holder, "evaluators": listed._replace(value=made)}

    def _defaults(self, given: Entries, execution: Entries) -> SuiteDefaults:
        metadata = given.get("metadata", Taken(None)).value
        defaults: dict[str, JsonValue] = dict(metadata) if isinstance(metadata, Mapping) else {}
        if "governance" in given:
            defaults["governance"] = given["governance"].value
        listed = self._evaluators.first_list({} if self.generation != Generation.FOURTH else given, execution)
        found = [] if listed is None else self._evaluators.numbered(self._evaluators.all_in(listed))
        return SuiteDefaults(
            metadata=defaults,
            evaluators=found,
            messages=[self._message(item) for item in self._messages(given.get("input"), "user")],
            files=given.get("input_files"),
            workspace=given.get("workspace"),
        )

    def _suite_key(self, key: str, taken: Taken, made: Entries) -> None:
        if key in CASE_LISTS:
            made["evalcases"] = self._case_list(taken)
        elif key == "name":
            made.setdefault("dataset", taken)
        elif key in ABOUT_KEYS or key == "$schema":
            self.report.ignore()
            self.about.update({key: taken.value} if key in ABOUT_KEYS else {})
        elif key in _SUITE_WITHOUT_EFFECT:
            self.report.drop(taken, key, _SUITE_WITHOUT_EFFECT[key])
        elif SuiteModel.names().of(key) is not None and key not in ("execution", DIALECT_KEY):
            made[key] = taken
        elif key not in _SUITE_KEYS and key != DIALECT_KEY:
            self.report.unknown(taken, key, [*_SUITE_KEYS, *SuiteModel.names().canonical])

    def _suite_execution(self, given: Entries) -> Entries:
        made: Entries = {}
        for key, taken in given.items():
            if key in _EXECUTION_WITHOUT_EFFECT:
                self.report.drop(taken, key, _EXECUTION_WITHOUT_EFFECT[key])
            elif key == "targets":
                made["targets"] = self._targets(taken)
            else:
                self._execution_key(key, taken, made, SuiteExecutionModel.names().of(key))
        return made

    def _execution_key(self, key: str, taken: Taken, made: Entries, ours: str | None) -> None:
        if key == "threshold":
            made["pass_score"] = taken
        elif key == "total_budget_usd":
            made["budget_usd"] = taken
        elif key == "trials" and isinstance(taken.value, Mapping):
            count = self._entries(taken).get("count")
            if count is not None:
                made["trials"] = count
        elif ours is not None and key != "evaluators":
            made[key] = taken
        elif key not in ("evaluators", "assertions", "assert", "skip_defaults", "threshold"):
            self.report.unknown(taken, key, SuiteExecutionModel.names().canonical)

    def _trials(self, execution: Entries, made: Entries) -> None:
        """Set the gate for the strategy of repeated trials."""
        trials = execution.get("trials", Taken(None))
        given = self._entries(trials)
        strategy = given.get("strategy", Taken("pass_at_k", trials.at))
        count = given.get("count", Taken(None)).value
        for key, taken in given.items():
            if key in ("cost_limit_usd", "costLimitUsd"):
                self.report.drop(taken, key, "use --budget-usd")
            elif key not in ("count", "strategy"):
                self.report.unknown(taken, key, ("count", "strategy", "cost_limit_usd"))
        if not given or not isinstance(count, int):
            return
        if strategy.value == "pass_at_k":
            gate = Taken(f"pass_at({count}) >= 100%", strategy.at)
            made.setdefault("gates", Taken(self._rewriter.list([gate]), strategy.at))
        elif strategy.value == "confidence_interval":
            self.report.drop(strategy, "strategy", "every trial is a result of its own; reports have the intervals")

    def _targets(self, taken: Taken) -> Taken:
        """Return the names of the targets that a suite runs with."""
        if not is_list(taken.value):
            return taken
        names: list[Taken] = []
        for item in self._rewriter.items(taken):
            given = self._entries(item)
            if not given:
                names.append(item)
                continue
            if "hooks" in given:
                self.report.drop(given["hooks"], "hooks", "hooks of whole suites are not run")
            if "use_target" in given:
                reason = "the results have the name of the target that is used"
                self.report.drop(given.get("name", item), "name", reason)
            names.append(given.get("use_target", given.get("name", item)))
        return taken._replace(value=self._rewriter.list(names))

    def _case_list(self, taken: Taken) -> Taken:
        if not is_list(taken.value):
            return taken
        made = [self.case(item) if isinstance(item.value, Mapping) else item for item in self._rewriter.items(taken)]
        return taken._replace(value=self._rewriter.list(made))

    def case(self, taken: Taken) -> Taken:
        """Return one case, translated."""
        given = self._entries(taken)
        made = self._foreign_case(given, taken) if self.generation.is_foreign else self._first_case(given)
        return taken._replace(value=self._rewriter.object(made))

    def _first_case(self, given: Entries) -> Entries:
        made = {key: taken for key, taken in given.items() if key not in _CASE_IGNORED}
        self.report.ignored += len(given) - len(made)
        self._drop_reference(made)
        execution = self._entries(made.get("execution", Taken(None)))
        if "target" in execution:
            self._drop_target(execution.pop("target"))
        if execution or "execution" in made:
            made["execution"] = made["execution"]._replace(value=self._rewriter.object(self._own_lists(execution)))
        return self._own_lists(made)

    def _drop_target(self, taken: Taken) -> None:
        self.report.drop(taken, "target", "a case has no target of its own; AgentV ignores it, too")

    def _drop_reference(self, made: Entries) -> None:
        if "reference_answer" in made:
            self.report.drop(made.pop("reference_answer"), "reference_answer", _REFERENCE_ANSWER)

    def _foreign_case(self, given: Entries, place: Taken) -> Entries:
        given |= {key: self._filled(given[key], given) for key in _TEXT_KEYS if key in given}
        execution = self._entries(given.get("execution", Taken(None)))
        skips = execution.get("skip_defaults", Taken(None)).value is True
        made: Entries = {}
        for key, taken in given.items():
            self._case_key(key, taken, made)
        self._conversation(given, made)
        self._case_messages(given, made, skips=skips)
        self._case_metadata(given, made, place)
        evaluators = self._case_evaluators(given, execution, skips=skips)
        if evaluators is not None:
            made["evaluators"] = evaluators
        elif skips and self.defaults.evaluators and "evaluator" not in made and "rubrics" not in made:
            made["evaluator"] = Taken("llm_judge", place.at)
        run = self._case_execution(execution)
        run |= {key: given[key] for key in _ORDER_KEYS if key in given}
        run |= {_TURN_RULES[key]: given[key] for key in _TURN_RULES if key in given and "turns" in made}
        if "workspace" in given:
            self._workspace(self._with_suite_workspace(given["workspace"]), run)
        if run:
            at = next(
                (given[key].at for key in ("execution", "workspace", *_ORDER_KEYS, *_TURN_RULES) if key in given),
                place.at,
            )
            made["execution"] = Taken(self._rewriter.object(run), at)
        return made

    def _filled(self, taken: Taken, given: Entries) -> Taken:
        """Return a value with the variables of a case in its texts."""
        variables = given.get("vars", Taken(None)).value
        if not isinstance(variables, Mapping) or self.generation != Generation.FOURTH:
            return taken
        return taken._replace(value=with_variables(taken.value, variables))

    def _workspace(self, taken: Taken, run: Entries) -> None:
        """Put the translated workspace among the entries of `execution`."""
        at = taken.at or ()
        document = Document(self._source.document.path, taken.value, self._source.document.mark(at), self._marks())
        translation = translate_workspace(document, self._folder)
        self.report.add(translation.notes, at)
        is_refused = any(note.effect == "refused" for note in translation.notes)
        if isinstance(translation.document.value, Mapping) and not is_refused:
            self._rewriter.keep(translation.document.value)
            self._rewriter.marks.update(translation.document.marks)
            run["workspace"] = taken._replace(value=translation.document.value)

    def _marks(self) -> Marks:
        return {**self._source.document.marks, **self._rewriter.marks}

    def _with_suite_workspace(self, taken: Taken) -> Taken:
        """Return a case's workspace, completed from the suite's; hooks and `env` are joined key by key."""
        common = self.defaults.workspace
        if common is None or not isinstance(taken.value, Mapping) or not isinstance(common.value, Mapping):
            return taken
        own, joined = self._entries(taken), self._entries(common)
        for key, value in own.items():
            inner = self._entries(joined[key]) if key in ("hooks", "env") and key in joined else {}
            both = {**inner, **self._entries(value)}
            joined[key] = value._replace(value=self._rewriter.object(both)) if inner else value
        return taken._replace(value=self._rewriter.object(joined))

    def _case_key(self, key: str, taken: Taken, made: Entries) -> None:
        if key == "criteria" and isinstance(taken.value, str):
            made["expected_outcome"] = taken
        elif key == "rubrics":
            made["rubrics"] = self._evaluators.items(taken)
        elif key in _CASE_IGNORED:
            self.report.ignore()
        elif key == "reference_answer":
            self.report.drop(taken, key, _REFERENCE_ANSWER)
        elif key == "expected_messages":
            made[key] = taken._replace(value=self._message_list(self._rewriter.items(taken), taken))
        elif CaseModel.names().of(key) is not None and key not in (*_MADE_KEYS, "vars"):
            made[key] = taken
        elif key not in (*_CASE_KEYS, "evaluators", "metadata"):
            self.report.unknown(taken, key, [*_CASE_KEYS, *CaseModel.names().canonical])

    def _conversation(self, given: Entries, made: Entries) -> None:
        """Set the turns of a conversation that is held live."""
        keys = ("mode", "turns", *_TURN_RULES)
        is_conversation = given.get("mode", Taken(None)).value == _CONVERSATION
        if "mode" in given and not is_conversation:
            self.report.refuse(given["mode"], f"`mode` must be {_CONVERSATION!r}", advice="remove it")
        elif is_conversation and not given.get("turns", Taken(None)).value:
            self.report.refuse(given["mode"], f"`mode: {_CONVERSATION}` needs `turns`", advice="a list of turns")
        elif not is_conversation:
            for key in keys:
                if key in given:
                    advice = f"add `mode: {_CONVERSATION}`"
                    self.report.refuse(given[key], f"`{key}` is for conversations", advice=advice)
        elif not is_list(given["turns"].value):
            made["turns"] = given["turns"]
        else:
            for key, words in _TURN_WORDS.items():
                if key in given and given[key].value not in words:
                    self.report.refuse(given.pop(key), f"`{key}` must be one of {', '.join(words)}")
            turns = [self._turn(item) for item in self._rewriter.items(given["turns"])]
            made["turns"] = given["turns"]._replace(value=self._rewriter.list(turns))
            if "expected_output" in given:
                reason = "the turns of a conversation have their own"
                self.report.drop(given.pop("expected_output"), "expected_output", reason)

    def _turn(self, taken: Taken) -> Taken:
        given, made = self._entries(taken), Entries()
        if not given:
            return taken
        for key, value in given.items():
            if key == "assertions" and is_list(value.value):
                listed = [self._counting_once(each) for each in self._evaluators.all_in(value)]
                made["evaluators"] = value._replace(value=self._evaluators.made_list(self._evaluators.numbered(listed)))
            elif key in ("input", "expected_output"):
                messages = self._messages(value, "assistant")  # whose lists are content, not messages
                content = self._entries(self._message(messages[0])).get("content") if len(messages) == 1 else None
                if content is None:
                    self.report.refuse(value, f"the `{key}` of a turn is one message", advice="a text, or its content")
                    content = Taken("-", value.at)
                made["input" if key == "input" else "expected"] = content
            else:
                self.report.unknown(value, key, _TURN_KEYS)
        return taken._replace(value=self._rewriter.object(made))

    def _counting_once(self, evaluator: Made | Taken) -> Made | Taken:
        """Return an evaluator of a turn: its plain texts together count as much as one evaluator."""
        if isinstance(evaluator, Made) and evaluator.entries.get("name", Taken(None)).value == TEXTS_NAME:
            return evaluator._replace(
                entries={key: value for key, value in evaluator.entries.items() if key != "weight"}
            )
        return evaluator

    def _case_messages(self, given: Entries, made: Entries, *, skips: bool) -> None:
        question, expected = given.get("input"), given.get("expected_output")
        files = given.get("input_files")
        if files is None and not skips:
            files = self.defaults.files and self._filled(self.defaults.files, given)
        if question is None:
            question = given.get("input_messages")
            own: Sequence[Taken] = [] if question is None else self._rewriter.items(question)
        else:
            own = self._messages(question, "user", files)
        if question is None and "turns" in made and self.defaults.messages and not skips:
            before = [self._filled(each, given) for each in self.defaults.messages]
            made["input_messages"] = made["turns"]._replace(value=self._message_list(before, made["turns"]))
        if question is not None:
            first = [] if skips or not own else [self._filled(each, given) for each in self.defaults.messages]
            made["input_messages"] = question._replace(value=self._message_list([*first, *own], question))
        if expected is not None:
            listed = self._messages(expected, "assistant")
            made["expected_messages"] = expected._replace(value=self._message_list(listed, expected))

    def _messages(self, taken: Taken | None, role: str, files: Taken | None = None) -> Sequence[Taken]:
        """Return messages, which may be written as a string, an object, one message, or a list."""
        if taken is None:
            return ()
        value = taken.value
        if is_list(value):
            items = self._rewriter.items(taken)
            if role == "user" or (items and _is_message(items[0].value)):
                return items
        elif _is_message(value):
            return (taken,)
        content = self._with_files(taken, files) if isinstance(value, str) and files is not None else taken
        if is_list(value) and not all(isinstance(item, str) or _is_part(item) for item in value):
            content = taken._replace(value=pretty_json(value))
        message = self._rewriter.object({"role": Taken(role, taken.at), "content": content})
        return (Taken(message, taken.at),)

    def _with_files(self, text: Taken, files: Taken) -> Taken:
        parts = [
            Taken(self._rewriter.object({"type": Taken("file", item.at), "value": item}), item.at)
            for item in self._rewriter.items(files)
        ]
        own = Taken(self._rewriter.object({"type": Taken("text", text.at), "value": text}), text.at)
        return text._replace(value=self._rewriter.list([*parts, own]))

    def _message_list(self, items: Sequence[Taken], taken: Taken) -> JsonValue:
        if not items and not is_list(taken.value):
            return taken.value
        return self._rewriter.list([self._message(item) for item in items])

    def _message(self, taken: Taken) -> Taken:
        """Return a message whose content may hold plain texts among its parts; an answer may be a number."""
        given = self._entries(taken)
        content = given.get("content", Taken(None))
        is_answer = given.get("role", Taken(None)).value == "assistant"
        if is_answer and isinstance(content.value, bool | int | float):
            text = content._replace(value=compact_json(content.value))
            return taken._replace(value=self._rewriter.object({**given, "content": text}))
        if not is_list(content.value) or not any(isinstance(item, str) for item in content.value):
            return taken
        parts = [
            Taken(self._rewriter.object({"type": Taken("text", item.at), "value": item}), item.at)
            if isinstance(item.value, str)
            else item
            for item in self._rewriter.items(content)
        ]
        return taken._replace(
            value=self._rewriter.object({**given, "content": content._replace(value=self._rewriter.list(parts))})
        )

    def _case_metadata(self, given: Entries, made: Entries, place: Taken) -> None:
        own = given.get("metadata")
        if not self.defaults.metadata:
            if own is not None:
                made["metadata"] = own
            return
        written = own.value if own is not None and isinstance(own.value, Mapping) else {}
        at = place.at if own is None else own.at
        made["metadata"] = Taken(merged(self.defaults.metadata, written), at)

    def _case_evaluators(self, given: Entries, execution: Entries, *, skips: bool) -> Taken | None:
        listed = self._evaluators.first_list(given, execution)
        if listed is None:
            return None
        if not is_list(listed.value):
            return listed
        own = self._evaluators.all_in(listed)
        appended = [] if skips or self.generation != Generation.FOURTH else list(self.defaults.evaluators)
        made = self._evaluators.numbered([*own, *appended])
        return listed._replace(value=self._evaluators.made_list(made))

    def _case_execution(self, given: Entries) -> Entries:
        made: Entries = {}
        for key, taken in given.items():
            if key == "target":
                self._drop_target(taken)
            elif key == "targets":
                made["targets"] = self._targets(taken)
            elif key in _EXECUTION_WITHOUT_EFFECT:
                self.report.drop(taken, key, _EXECUTION_WITHOUT_EFFECT[key])
            else:
                self._execution_key(key, taken, made, CaseExecutionModel.names().of(key))
        return made


def _is_message(value: JsonValue) -> bool:
    return isinstance(value, Mapping) and "role" in value


def _is_part(value: JsonValue) -> bool:
    return isinstance(value, Mapping) and value.keys() == {"type", "value"}


def merged(defaults: JsonObject, own: JsonObject) -> JsonObject:
    """Return the metadata of a case with defaults: lists are joined, objects merged, other values are the case's."""
    made: dict[str, JsonValue] = dict(defaults)
    for key, value in own.items():
        default = made.get(key)
        if isinstance(default, Mapping) and isinstance(value, Mapping):
            made[key] = merged(default, value)
        elif is_list(default) and is_list(value):
            made[key] = [*default, *(item for item in value if item not in default)]
        else:
            made[key] = value
    return made
