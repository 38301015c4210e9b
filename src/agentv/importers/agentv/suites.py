"""Eval files of AgentV 1.5 to 4.42 translated into ours, the top level and the cases; and those of Agent Skills."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from msgspec import Struct, field

from agentv.importers.agentv.case_texts import with_variables
from agentv.importers.agentv.evaluators import PLAIN_TEXTS_NAME, EvaluatorTranslator
from agentv.importers.agentv.generations import CASE_LISTS, DIALECT_KEY, Generation
from agentv.importers.agentv.rewriting import Entries, NewObject, Report, Rewriter, Sourced, is_list
from agentv.importers.agentv.workspace import translate_workspace
from agentv.loading.files.documents import Document, Marks
from agentv.loading.models.eval_files import CaseExecutionModel, CaseModel, SuiteExecutionModel, SuiteModel
from agentv.loading.models.reader import Reader
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.messages_json import compact_json, pretty_json

ABOUT_KEYS = ("version", "author", "license", "requires", "category")
"""Keys that describe a file; they are stored with the run."""
_SCHEMA_START = "agentv-eval"
_UNREAD_FILES = "the judge does not read files that an answer names"
_SUITE_WITHOUT_EFFECT = {"hooks": "hooks of whole suites are not run", "preprocessors": _UNREAD_FILES}
_EXECUTION_WITHOUT_EFFECT = {
    "cache": "use --cache",
    "cache_path": "use --cache",
    "fail_on_error": "use --max-errors",
}
_IGNORED_CASE_KEYS = ("description", "note", "suite")
_REFERENCE_ANSWER = "the reference answer comes from the expected messages, as in AgentV"
_CONVERSATION_MODE = "conversation"
_TURN_RULES = {
    "aggregation": "turn_aggregate",
    "on_turn_failure": "on_turn_failure",
    "window_size": "turn_window",
}
_TURN_VALUES = {"aggregation": ("mean", "min", "max"), "on_turn_failure": ("continue", "stop")}
_TURN_KEYS = ("input", "expected_output", "assertions")
_UNCHECKED_TURN: JsonObject = {"name": "no_checks", "type": "length", "min": 0}
"""The evaluator that gives a turn without checks its score of 1."""
_ORDER_KEYS = ("depends_on", "on_dependency_failure")
_TEXT_KEYS = ("criteria", "input", "input_files", "expected_output", "turns")
_DEFAULT_PASS_SCORE = 0.8
_COMPOSED_KEYS = ("execution", "evaluators", "metadata", "turns", "input", "input_messages", "expected_output")
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
    *(*_TURN_RULES, *_ORDER_KEYS, *_IGNORED_CASE_KEYS),
)


class SuiteDefaults(Struct, frozen=True):
    """The values of the top level of a file that apply to each of its cases."""

    metadata: JsonObject = field(default_factory=dict)
    evaluators: Sequence[NewObject | Sourced] = ()
    messages: Sequence[Sourced] = ()
    files: Sourced | None = None
    workspace: Sourced | None = None


def without_positions(defaults: SuiteDefaults) -> SuiteDefaults:
    """Return the defaults for cases of other files: without positions, which would be those of this file."""
    return SuiteDefaults(
        metadata=defaults.metadata,
        evaluators=[
            NewObject({key: Sourced(sourced.value) for key, sourced in each.entries.items()}, None)
            if isinstance(each, NewObject)
            else Sourced(each.value)
            for each in defaults.evaluators
        ],
        messages=[Sourced(sourced.value) for sourced in defaults.messages],
        files=None if defaults.files is None else Sourced(defaults.files.value),
        workspace=None if defaults.workspace is None else Sourced(defaults.workspace.value),
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
        """Translate an eval file, or the side file of a dataset, and set the defaults for its cases."""
        given = self._entries(Sourced(self._source.document.value, ()))
        if not self.generation.is_foreign:
            return self._rewriter.document(self._rewriter.object(self._first_suite(given)))
        execution = self._entries(given.get("execution", Sourced(None)))
        translated: Entries = {}
        self.defaults = self._defaults(given, execution)
        for key, sourced in given.items():
            self._translate_suite_key(key, sourced, translated)
        options = self._suite_execution(execution)
        if self.defaults.workspace is not None:
            self._workspace(self.defaults.workspace, options)
        if self.defaults.evaluators:
            listed = self._evaluators.new_list(self.defaults.evaluators)
            options["evaluators"] = Sourced(listed, self._path_of_list(given, execution))
        if self.generation == Generation.FOURTH and "pass_score" not in translated:
            options.setdefault("pass_score", Sourced(_DEFAULT_PASS_SCORE, ()))
        if options:
            translated["execution"] = Sourced(
                self._rewriter.object(options), given.get("execution", Sourced(None, ())).at
            )
        self._add_trials_gate(execution if "trials" in execution else given, translated)
        return self._rewriter.document(self._rewriter.object(translated))

    def cases(self, value: JsonValue) -> Document:
        """Translate a file of cases of a suite: a list, an object that contains a list, or one case."""
        root = Sourced(value, ())
        if is_list(value):
            return self._rewriter.document(self._case_list(root).value)
        given = self._entries(root)
        key = next((key for key in CASE_LISTS if key in given), None)
        if key is None:
            return self._rewriter.document(self.case(root).value)
        return self._rewriter.document(self._rewriter.object({"evalcases": self._case_list(given[key])}))

    def _entries(self, sourced: Sourced) -> Entries:
        return self._rewriter.entries(sourced)

    def _path_of_list(self, given: Entries, execution: Entries) -> "tuple[str | int, ...] | None":
        places = [holder.get(key) for holder in (given, execution) for key in ("assertions", "assert", "evaluators")]
        return next((sourced.at for sourced in places if sourced is not None), ())

    def _first_suite(self, given: Entries) -> Entries:
        """Return the top level of a file of AgentV 1.5, whose keys mostly mean the same as ours."""
        translated = dict(given)
        translated.pop(DIALECT_KEY, None)
        schema = translated.get("$schema")
        if schema is not None and not str(schema.value).startswith(_SCHEMA_START):
            self.report.ignore()
            del translated["$schema"]
        for key in CASE_LISTS:
            if key in translated:
                translated[key] = self._case_list(translated[key])
        execution = self._entries(translated.get("execution", Sourced(None)))
        if "evaluators" in execution:
            translated["execution"] = translated["execution"]._replace(
                value=self._rewriter.object(self._with_translated_lists(execution))
            )
        return self._with_translated_lists(translated)

    def _with_translated_lists(self, holder: Entries) -> Entries:
        """Return a case, suite or `execution` of our own form with its evaluators translated."""
        listed = holder.get("evaluators")
        if listed is None or not is_list(listed.value):
            return holder
        translated = self._evaluators.new_list(self._evaluators.translate_list(listed))
        return {**holder, "evaluators": listed._replace(value=translated)}

    def _defaults(self, given: Entries, execution: Entries) -> SuiteDefaults:
        """Return the values of the top level that apply to each case."""
        metadata = given.get("metadata", Sourced(None)).value
        defaults: dict[str, JsonValue] = dict(metadata) if isinstance(metadata, Mapping) else {}
        if "governance" in given:
            defaults["governance"] = given["governance"].value
        listed = self._evaluators.effective_list(given, execution)
        found = [] if listed is None else self._evaluators.numbered(self._evaluators.translate_list(listed))
        return SuiteDefaults(
            metadata=defaults,
            evaluators=found,
            messages=[self._message(item) for item in self._messages(given.get("input"), "user")],
            files=given.get("input_files"),
            workspace=given.get("workspace"),
        )

    def _translate_suite_key(self, key: str, sourced: Sourced, translated: Entries) -> None:
        """Add a key of the top level to `translated`, or report it; `execution` and evaluators are skipped here."""
        if key in CASE_LISTS:
            translated["evalcases"] = self._case_list(sourced)
        elif key == "name":
            translated.setdefault("dataset", sourced)
        elif key in ABOUT_KEYS or key == "$schema":
            self.report.ignore()
            if key in ABOUT_KEYS:
                self.about[key] = sourced.value
        elif key in _SUITE_WITHOUT_EFFECT:
            self.report.drop(sourced, key, _SUITE_WITHOUT_EFFECT[key])
        elif (ours := SuiteExecutionModel.names().of(key)) is not None:
            self._translate_setting(key, sourced, translated, ours)
        elif SuiteModel.names().of(key) is not None and key not in ("execution", DIALECT_KEY):
            translated[key] = sourced
        elif key not in _SUITE_KEYS and key != DIALECT_KEY:
            self.report.unknown(sourced, key, [*_SUITE_KEYS, *SuiteModel.names().canonical])

    def _translate_setting(self, key: str, sourced: Sourced, translated: Entries, ours: str) -> None:
        """Add a setting at the top of the file; evaluators and the workspace are among the defaults of cases."""
        if ours == "targets":
            translated[ours] = self._targets(sourced)
        elif ours != "workspace":
            self._translate_execution_key(key, sourced, translated, ours)

    def _suite_execution(self, given: Entries) -> Entries:
        translated: Entries = {}
        for key, sourced in given.items():
            if key in _EXECUTION_WITHOUT_EFFECT:
                self.report.drop(sourced, key, _EXECUTION_WITHOUT_EFFECT[key])
            elif key == "targets":
                translated["targets"] = self._targets(sourced)
            else:
                self._translate_execution_key(key, sourced, translated, SuiteExecutionModel.names().of(key))
        return translated

    def _translate_execution_key(self, key: str, sourced: Sourced, translated: Entries, ours: str | None) -> None:
        if key == "threshold":
            translated["pass_score"] = sourced
        elif key == "total_budget_usd":
            translated["budget_usd"] = sourced
        elif key == "trials" and isinstance(sourced.value, Mapping):
            count = self._entries(sourced).get("count")
            if count is not None:
                translated["trials"] = count
        elif ours is not None and key != "evaluators":
            translated[ours] = sourced
        elif key not in ("evaluators", "assertions", "assert", "skip_defaults", "threshold"):
            self.report.unknown(sourced, key, SuiteExecutionModel.names().canonical)

    def _add_trials_gate(self, execution: Entries, translated: Entries) -> None:
        """Set the gate for the strategy of repeated trials."""
        trials = execution.get("trials", Sourced(None))
        given = self._entries(trials)
        strategy = given.get("strategy", Sourced("pass_at_k", trials.at))
        count = given.get("count", Sourced(None)).value
        for key, sourced in given.items():
            if key in ("cost_limit_usd", "costLimitUsd"):
                self.report.drop(sourced, key, "use --budget-usd")
            elif key not in ("count", "strategy"):
                self.report.unknown(sourced, key, ("count", "strategy", "cost_limit_usd"))
        if not given or not isinstance(count, int):
            return
        if strategy.value == "pass_at_k":
            gate = Sourced(f"pass_at({count}) >= 100%", strategy.at)
            translated.setdefault("gates", Sourced(self._rewriter.list([gate]), strategy.at))
        elif strategy.value == "confidence_interval":
            self.report.drop(strategy, "strategy", "every trial is a result of its own; reports have the intervals")

    def _targets(self, sourced: Sourced) -> Sourced:
        """Return the names of the targets that a suite runs with."""
        if not is_list(sourced.value):
            return sourced
        names: list[Sourced] = []
        for item in self._rewriter.items(sourced):
            given = self._entries(item)
            if not given or "provider" in given:  # a target that is defined here
                names.append(item)
                continue
            if "hooks" in given:
                self.report.drop(given["hooks"], "hooks", "hooks of whole suites are not run")
            if "use_target" in given:
                reason = "the results have the name of the target that is used"
                self.report.drop(given.get("name", item), "name", reason)
            names.append(given.get("use_target", given.get("name", item)))
        return sourced._replace(value=self._rewriter.list(names))

    def _case_list(self, sourced: Sourced) -> Sourced:
        if not is_list(sourced.value):
            return sourced
        translated = [
            self.case(item) if isinstance(item.value, Mapping) else item for item in self._rewriter.items(sourced)
        ]
        return sourced._replace(value=self._rewriter.list(translated))

    def case(self, sourced: Sourced) -> Sourced:
        """Return one translated case."""
        given = self._entries(sourced)
        translated = self._foreign_case(given, sourced) if self.generation.is_foreign else self._first_case(given)
        return sourced._replace(value=self._rewriter.object(translated))

    def _first_case(self, given: Entries) -> Entries:
        """Return a case of AgentV 1.5, without the keys that it ignores."""
        translated = {key: sourced for key, sourced in given.items() if key not in _IGNORED_CASE_KEYS}
        self.report.ignored += len(given) - len(translated)
        self._drop_reference(translated)
        execution = self._entries(translated.get("execution", Sourced(None)))
        if "target" in execution:
            self._drop_target(execution.pop("target"))
        if execution or "execution" in translated:
            translated["execution"] = translated["execution"]._replace(
                value=self._rewriter.object(self._with_translated_lists(execution))
            )
        return self._with_translated_lists(translated)

    def _drop_target(self, sourced: Sourced) -> None:
        self.report.drop(sourced, "target", "a case has no target of its own; AgentV ignores it, too")

    def _drop_reference(self, translated: Entries) -> None:
        if "reference_answer" in translated:
            self.report.drop(translated.pop("reference_answer"), "reference_answer", _REFERENCE_ANSWER)

    def _foreign_case(self, given: Entries, place: Sourced) -> Entries:
        """Return a case of AgentV 2 or 4, completed by the defaults of its suite."""
        given |= {key: self._filled(given[key], given) for key in _TEXT_KEYS if key in given}
        execution = self._entries(given.get("execution", Sourced(None)))
        skips_defaults = execution.get("skip_defaults", Sourced(None)).value is True
        translated: Entries = {}
        for key, sourced in given.items():
            self._translate_case_key(key, sourced, translated)
        evaluators = self._case_evaluators(given, execution, skips_defaults=skips_defaults)
        if evaluators is not None:
            translated["evaluators"] = evaluators
        elif (
            skips_defaults
            and self.defaults.evaluators
            and "evaluator" not in translated
            and "rubrics" not in translated
        ):
            translated["evaluator"] = Sourced("llm_judge", place.at)
        self._conversation(given, translated)
        self._case_messages(given, translated, skips_defaults=skips_defaults)
        self._case_metadata(given, translated, place)
        options = self._case_execution(execution)
        options |= {key: given[key] for key in _ORDER_KEYS if key in given}
        options |= {_TURN_RULES[key]: given[key] for key in _TURN_RULES if key in given and "turns" in translated}
        if "workspace" in given:
            self._workspace(self._with_suite_workspace(given["workspace"]), options)
        if options:
            at = next(
                (given[key].at for key in ("execution", "workspace", *_ORDER_KEYS, *_TURN_RULES) if key in given),
                place.at,
            )
            translated["execution"] = Sourced(self._rewriter.object(options), at)
        return translated

    def _filled(self, sourced: Sourced, given: Entries) -> Sourced:
        """Return a value with the variables of a case in its texts."""
        variables = given.get("vars", Sourced(None)).value
        if not isinstance(variables, Mapping) or self.generation != Generation.FOURTH:
            return sourced
        return sourced._replace(value=with_variables(sourced.value, variables))

    def _workspace(self, sourced: Sourced, options: Entries) -> None:
        """Put the translated workspace among the entries of `execution`."""
        at = sourced.at or ()
        document = Document(self._source.document.path, sourced.value, self._source.document.mark(at), self._marks())
        translation = translate_workspace(document, self._folder)
        self.report.add(translation.notes, at)
        is_refused = any(note.effect == "refused" for note in translation.notes)
        if isinstance(translation.document.value, Mapping) and not is_refused:
            self._rewriter.keep_alive(translation.document.value)
            self._rewriter.marks.update(translation.document.marks)
            options["workspace"] = sourced._replace(value=translation.document.value)

    def _marks(self) -> Marks:
        return {**self._source.document.marks, **self._rewriter.marks}

    def _with_suite_workspace(self, sourced: Sourced) -> Sourced:
        """Return a case's workspace, completed from the suite's; hooks and `env` are joined key by key."""
        common = self.defaults.workspace
        if common is None or not isinstance(sourced.value, Mapping) or not isinstance(common.value, Mapping):
            return sourced
        own, joined = self._entries(sourced), self._entries(common)
        for key, value in own.items():
            inner = self._entries(joined[key]) if key in ("hooks", "env") and key in joined else {}
            both = {**inner, **self._entries(value)}
            joined[key] = value._replace(value=self._rewriter.object(both)) if inner else value
        return sourced._replace(value=self._rewriter.object(joined))

    def _translate_case_key(self, key: str, sourced: Sourced, translated: Entries) -> None:
        """Add a key of a case to `translated`, or report it; keys that are made of several others are skipped here."""
        if key == "criteria" and isinstance(sourced.value, str):
            translated["expected_outcome"] = sourced
        elif key == "rubrics":
            translated["rubrics"] = self._evaluators.rubric_items(sourced)
        elif key in _IGNORED_CASE_KEYS:
            self.report.ignore()
        elif key == "reference_answer":
            self.report.drop(sourced, key, _REFERENCE_ANSWER)
        elif key == "expected_messages":
            translated["expected"] = sourced._replace(value=self._message_list(self._rewriter.items(sourced), sourced))
        elif CaseModel.names().of(key) is not None and key not in (*_COMPOSED_KEYS, "vars"):
            translated[key] = sourced
        elif key not in (*_CASE_KEYS, "input_messages", "evaluators", "metadata"):
            self.report.unknown(sourced, key, [*_CASE_KEYS, *CaseModel.names().canonical])

    def _conversation(self, given: Entries, translated: Entries) -> None:
        """Set the turns of a conversation that is held live."""
        keys = ("mode", "turns", *_TURN_RULES)
        is_conversation = given.get("mode", Sourced(None)).value == _CONVERSATION_MODE
        if "mode" in given and not is_conversation:
            self.report.refuse(given["mode"], f"`mode` must be {_CONVERSATION_MODE!r}", advice="remove it")
        elif is_conversation and not given.get("turns", Sourced(None)).value:
            self.report.refuse(given["mode"], f"`mode: {_CONVERSATION_MODE}` needs `turns`", advice="a list of turns")
        elif not is_conversation:
            for key in keys:
                if key in given:
                    advice = f"add `mode: {_CONVERSATION_MODE}`"
                    self.report.refuse(given[key], f"`{key}` is for conversations", advice=advice)
        elif not is_list(given["turns"].value):
            translated["turns"] = given["turns"]
        else:
            for key, words in _TURN_VALUES.items():
                if key in given and given[key].value not in words:
                    self.report.refuse(given.pop(key), f"`{key}` must be one of {', '.join(words)}")
            translated["turns"] = given["turns"]._replace(value=self._rewriter.list(self._turns(given, translated)))
            if "expected_output" in given:
                reason = "the turns of a conversation have their own"
                self.report.drop(given.pop("expected_output"), "expected_output", reason)

    def _turns(self, given: Entries, translated: Entries) -> Sequence[Sourced]:
        """Return the turns of a conversation. Those without checks score 1, as in AgentV, if anything is judged."""
        turns = self._rewriter.items(given["turns"])
        unchecked = [number for number, turn in enumerate(turns, 1) if not _has_checks(self._entries(turn))]
        is_judged = translated.keys() & {"evaluators", "evaluator", "rubrics"} or self.defaults.evaluators
        if not unchecked or (len(unchecked) == len(turns) and not is_judged):
            return [self._turn(turn) for turn in turns]
        numbers = ", ".join(map(str, unchecked))
        self.report.source.error(
            given["turns"].at or (),
            f"a turn without checks scores 1, as in {self.report.program}: turn {numbers}",
            allowed="give it `expected_output` or `assertions`",
            on_key=True,
            severity="warning",
        )
        return [self._turn(turn, passes=number in unchecked) for number, turn in enumerate(turns, 1)]

    def _turn(self, sourced: Sourced, *, passes: bool = False) -> Sourced:
        """Return one turn of a conversation; its input and its expected output are one message each.

        A turn that `passes` gets an evaluator that scores 1.
        """
        given, translated = self._entries(sourced), Entries()
        if not given:
            return sourced
        for key, value in given.items():
            if key == "assertions" and is_list(value.value):
                listed = [self._with_default_weight(each) for each in self._evaluators.translate_list(value)]
                translated["evaluators"] = value._replace(
                    value=self._evaluators.new_list(self._evaluators.numbered(listed))
                )
            elif key in ("input", "expected_output"):
                messages = self._messages(value, "assistant")  # whose lists are content, not messages
                content = self._entries(self._message(messages[0])).get("content") if len(messages) == 1 else None
                if content is None:
                    self.report.refuse(value, f"the `{key}` of a turn is one message", advice="a text, or its content")
                    content = Sourced("-", value.at)
                translated["input" if key == "input" else "expected"] = content
            else:
                self.report.unknown(value, key, _TURN_KEYS)
        if passes:
            evaluator = NewObject(
                {key: Sourced(value, sourced.at) for key, value in _UNCHECKED_TURN.items()}, sourced.at
            )
            translated["evaluators"] = sourced._replace(value=self._evaluators.new_list([evaluator]))
        return sourced._replace(value=self._rewriter.object(translated))

    def _with_default_weight(self, evaluator: NewObject | Sourced) -> NewObject | Sourced:
        """Return an evaluator of a turn: its plain texts together count as much as one evaluator."""
        if isinstance(evaluator, NewObject) and evaluator.entries.get("name", Sourced(None)).value == PLAIN_TEXTS_NAME:
            return evaluator._replace(
                entries={key: value for key, value in evaluator.entries.items() if key != "weight"}
            )
        return evaluator

    def _case_messages(self, given: Entries, translated: Entries, *, skips_defaults: bool) -> None:
        """Set the messages of a case, after those of the suite, and the expected messages."""
        question, expected = given.get("input"), given.get("expected_output")
        files = given.get("input_files")
        if files is None and not skips_defaults:
            files = self.defaults.files and self._filled(self.defaults.files, given)
        if question is None:
            question = given.get("input_messages")
            own: Sequence[Sourced] = [] if question is None else self._rewriter.items(question)
        else:
            own = self._messages(question, "user", files)
        if question is None and "turns" in translated and self.defaults.messages and not skips_defaults:
            before = [self._filled(each, given) for each in self.defaults.messages]
            translated["input"] = translated["turns"]._replace(value=self._message_list(before, translated["turns"]))
        if question is not None:
            first = [] if skips_defaults or not own else [self._filled(each, given) for each in self.defaults.messages]
            translated["input"] = question._replace(value=self._message_list([*first, *own], question))
        if expected is not None:
            listed = self._messages(expected, "assistant")
            translated["expected"] = expected._replace(value=self._message_list(listed, expected))

    def _messages(self, sourced: Sourced | None, role: str, files: Sourced | None = None) -> Sequence[Sourced]:
        """Return messages, which may be written as a string, an object, one message, or a list."""
        if sourced is None:
            return ()
        value = sourced.value
        if is_list(value):
            items = self._rewriter.items(sourced)
            if role == "user" or (items and _is_message(items[0].value)):
                return items
        elif _is_message(value):
            return (sourced,)
        content = self._with_files(sourced, files) if isinstance(value, str) and files is not None else sourced
        if is_list(value) and not all(isinstance(item, str) or _is_part(item) for item in value):
            content = sourced._replace(value=pretty_json(value))
        message = self._rewriter.object({"role": Sourced(role, sourced.at), "content": content})
        return (Sourced(message, sourced.at),)

    def _with_files(self, text: Sourced, files: Sourced) -> Sourced:
        parts = [
            Sourced(self._rewriter.object({"type": Sourced("file", item.at), "value": item}), item.at)
            for item in self._rewriter.items(files)
        ]
        own = Sourced(self._rewriter.object({"type": Sourced("text", text.at), "value": text}), text.at)
        return text._replace(value=self._rewriter.list([*parts, own]))

    def _message_list(self, items: Sequence[Sourced], sourced: Sourced) -> JsonValue:
        if not items and not is_list(sourced.value):
            return sourced.value
        return self._rewriter.list([self._message(item) for item in items])

    def _message(self, sourced: Sourced) -> Sourced:
        """Return a message whose content may hold plain texts among its parts; an answer may be a number."""
        given = self._entries(sourced)
        content = given.get("content", Sourced(None))
        is_answer = given.get("role", Sourced(None)).value == "assistant"
        if is_answer and isinstance(content.value, bool | int | float):
            text = content._replace(value=compact_json(content.value))
            return sourced._replace(value=self._rewriter.object({**given, "content": text}))
        if not is_list(content.value) or not any(isinstance(item, str) for item in content.value):
            return sourced
        parts = [
            Sourced(self._rewriter.object({"type": Sourced("text", item.at), "value": item}), item.at)
            if isinstance(item.value, str)
            else item
            for item in self._rewriter.items(content)
        ]
        return sourced._replace(
            value=self._rewriter.object({**given, "content": content._replace(value=self._rewriter.list(parts))})
        )

    def _case_metadata(self, given: Entries, translated: Entries, place: Sourced) -> None:
        own = given.get("metadata")
        if not self.defaults.metadata:
            if own is not None:
                translated["metadata"] = own
            return
        written = own.value if own is not None and isinstance(own.value, Mapping) else {}
        at = place.at if own is None else own.at
        translated["metadata"] = Sourced(merged(self.defaults.metadata, written), at)

    def _case_evaluators(self, given: Entries, execution: Entries, *, skips_defaults: bool) -> Sourced | None:
        listed = self._evaluators.effective_list(given, execution)
        if listed is None:
            return None
        if not is_list(listed.value):
            return listed
        own = self._evaluators.translate_list(listed)
        appended = [] if skips_defaults or self.generation != Generation.FOURTH else list(self.defaults.evaluators)
        translated = self._evaluators.numbered([*own, *appended])
        return listed._replace(value=self._evaluators.new_list(translated))

    def _case_execution(self, given: Entries) -> Entries:
        translated: Entries = {}
        for key, sourced in given.items():
            if key == "target":
                self._drop_target(sourced)
            elif key == "targets":
                translated["targets"] = self._targets(sourced)
            elif key in _EXECUTION_WITHOUT_EFFECT:
                self.report.drop(sourced, key, _EXECUTION_WITHOUT_EFFECT[key])
            else:
                self._translate_execution_key(key, sourced, translated, CaseExecutionModel.names().of(key))
        return translated


def _has_checks(turn: Entries) -> bool:
    return any(turn.get(key, Sourced(None)).value not in (None, "", []) for key in ("assertions", "expected_output"))


def _is_message(value: JsonValue) -> bool:
    return isinstance(value, Mapping) and "role" in value


def _is_part(value: JsonValue) -> bool:
    return isinstance(value, Mapping) and value.keys() == {"type", "value"}


def merged(defaults: JsonObject, own: JsonObject) -> JsonObject:
    """Return the metadata of a case with defaults: lists are joined, objects merged, other values are the case's."""
    translated: dict[str, JsonValue] = dict(defaults)
    for key, value in own.items():
        default = translated.get(key)
        if isinstance(default, Mapping) and isinstance(value, Mapping):
            translated[key] = merged(default, value)
        elif is_list(default) and is_list(value):
            translated[key] = [*default, *(item for item in value if item not in default)]
        else:
            translated[key] = value
    return translated


_SKILLS_ASSERTIONS = ("assertions", "expectations")


def with_agentv_keys(source: Document) -> Document:
    """Return the document of an `evals.json` with AgentV's keys; unknown keys stay as they are."""
    rewriter = Rewriter(source)
    given = rewriter.entries(Sourced(source.value, ()))
    name = given.pop("skill_name", None)
    cases = given.pop("evals")
    translated: Entries = {
        "tests": cases._replace(value=rewriter.list([_skills_case(rewriter, each) for each in rewriter.items(cases)]))
    }
    if name is not None:
        translated["name"] = name
        translated["metadata"] = name._replace(value=rewriter.object({"skill_name": name}))
    return rewriter.document(rewriter.object({**translated, **given}))


def _skills_case(rewriter: Rewriter, sourced: Sourced) -> Sourced:
    """Return a case of an `evals.json` with the keys of AgentV 4."""
    given = rewriter.entries(sourced)
    if not given:
        return sourced
    translated = {key: item for key, item in given.items() if key not in ("prompt", "files", *_SKILLS_ASSERTIONS)}
    case_id = given.get("id")
    if case_id is not None and isinstance(case_id.value, int):
        translated["id"] = case_id._replace(value=str(case_id.value))
    for ours, theirs in (("input", "prompt"), ("input_files", "files"), ("criteria", "expected_output")):
        if theirs in given:
            translated[ours] = given[theirs]
    listed = next((given[key] for key in _SKILLS_ASSERTIONS if key in given), None)
    if listed is not None:
        judges = [_skills_judge(rewriter, each, number) for number, each in enumerate(rewriter.items(listed), 1)]
        translated["assertions"] = listed._replace(value=rewriter.list(judges))
    return sourced._replace(value=rewriter.object(translated))


def _skills_judge(rewriter: Rewriter, sourced: Sourced, number: int) -> Sourced:
    """Return a judge that checks the answer against one assertion."""
    if not isinstance(sourced.value, str):
        return sourced
    name, kind = Sourced(f"assertion-{number}", sourced.at), Sourced("llm-grader", sourced.at)
    return sourced._replace(value=rewriter.object({"name": name, "type": kind, "prompt": sourced}))
