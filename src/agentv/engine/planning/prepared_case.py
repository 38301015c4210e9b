"""Cases prepared for one target: prompt, request, keys and evaluators, computed once for each row."""

from collections.abc import Iterable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from agentv.engine.planning.plan import CaseTask
from agentv.registry import ProviderSpec
from agentv.scoring.keys.identity import CaseKeys, answer_key, files_of, keys_of
from agentv.scoring.results.applicable import applicable_evaluators, criteria_of, evaluators_of_turn, tags_of
from agentv.scoring.results.conversations import turns_of
from agentv.types.cases import CaseTurn, EvalCase, EvaluatorLike
from agentv.types.evaluation import PromptInputs
from agentv.types.messages import ChatMessage, DataPart, FilePart, Message, Part, TextPart
from agentv.types.messages_json import compact_json, content_text, tool_call_to_json
from agentv.types.provider import GUIDELINES_HEADING, ProviderRequest
from agentv.types.scales import EvaluationCriteria
from agentv.types.targets import ResolvedTarget


class PromptForm(Struct, frozen=True):
    """The form in which a target takes its prompts."""

    quotes_paths_only: bool = False
    """An agent that reads files by itself: a prompt has the paths of attached files, not their texts."""
    takes_system_prompt: bool = False
    """The system prompt of a case is sent apart from the question."""


def prompt_form(target: ResolvedTarget, spec: ProviderSpec) -> PromptForm:
    """Return the form of a target's prompts. Settings may have `takes_system_prompt`, a field or a property."""
    return PromptForm(spec.reads_files, bool(getattr(target.settings, "takes_system_prompt", False)))


def build_prompt(case: EvalCase, *, quotes_paths_only: bool) -> PromptInputs:
    """Return the prompt of a case.

    `quotes_paths_only` is for agents that read the files themselves: the question then has the path of an attached
    file, not its text. The text of guideline files is always in `guidelines`.
    """
    only = case.input_messages[0] if len(case.input_messages) == 1 else None
    if only is not None and only.role in ("user", "system") and isinstance(only.content, str) and not only.tool_calls:
        return PromptInputs(question=only.content, guidelines="")  # most cases: a single text
    files = files_of(case.input_messages)
    guideline_files = [file for file in files if file.is_guideline]
    guidelines = "\n\n".join(f"=== {file.path} ===\n{file.text}" for file in guideline_files if file.text is not None)
    rendered = [(message, _rendered(message, quotes_paths_only=quotes_paths_only)) for message in case.input_messages]
    prompt = PromptInputs(
        question="",
        guidelines=guidelines,
        guideline_paths=_unique(file.real_path for file in guideline_files),
        file_paths=_unique(file.real_path for file in files if not file.is_guideline),
    )
    whole = _with_text(prompt, rendered)
    leading = _leading_system_messages(rendered)
    system = [message for message, _ in rendered[:leading]]
    if not any(map(_is_visible, system)) or not any(text for _, text in rendered[leading:]):
        return whole
    system_prompt = "\n\n".join(text for _, text in rendered[:leading] if text)
    return replace(whole, system_prompt=system_prompt, after_system=_with_text(prompt, rendered[leading:]))


def _with_text(prompt: PromptInputs, rendered: Sequence[tuple[Message, str]]) -> PromptInputs:
    """Return a prompt with the question and the chat messages made of rendered messages."""
    if not _needs_role_marks([message for message, _ in rendered]):
        return replace(prompt, question="\n\n".join(text for _, text in rendered if text))
    return replace(prompt, question=_with_role_marks(rendered), chat_prompt=_chat(rendered, prompt.guidelines))


def _leading_system_messages(rendered: Sequence[tuple[Message, str]]) -> int:
    """Return the number of system messages before the first other message."""
    return next((i for i, (message, _) in enumerate(rendered) if message.role != "system"), len(rendered))


def _unique(paths: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(paths))


def _needs_role_marks(messages: Sequence[Message]) -> bool:
    """Return True if a prompt must show roles: for several visible messages, or any of the assistant or a tool."""
    if any(message.role in ("assistant", "tool") for message in messages):
        return True
    return sum(_is_visible(message) for message in messages) > 1


def _is_visible(message: Message) -> bool:
    """Return True if a message has tool calls, or content other than guidelines."""
    if not isinstance(message.content, tuple):
        return bool(content_text(message.content).strip()) or bool(message.tool_calls)
    return any(_is_visible_part(part) for part in message.content) or bool(message.tool_calls)


def _is_visible_part(part: Part) -> bool:
    if isinstance(part, TextPart):
        return bool(part.text.strip())
    return not (isinstance(part, FilePart) and part.is_guideline)


def _rendered(message: Message, *, quotes_paths_only: bool) -> str:
    content = message.content
    if isinstance(content, tuple):
        lines = [_rendered_part(part, quotes_paths_only=quotes_paths_only) for part in content]
    else:
        lines = [content_text(content)]
    lines += [compact_json(tool_call_to_json(call)) for call in message.tool_calls]
    return "\n".join(line for line in lines if line)


def _rendered_part(part: Part, *, quotes_paths_only: bool) -> str:
    match part:
        case TextPart(text):
            return text
        case DataPart(type_, value):
            return compact_json({"type": type_, **value})
        case FilePart(path=path, is_guideline=True):
            return f"<Attached: {path}>"
        case FilePart(path=path, text=text) if quotes_paths_only or text is None:
            return f'<file: path="{path}">'
        case FilePart(path=path, text=text):
            return f'<file path="{path}">\n{text}\n</file>'


def _with_role_marks(rendered: Iterable[tuple[Message, str]]) -> str:
    return "\n\n".join(f"@[{message.role.capitalize()}]:\n{text}" for message, text in rendered if text)


def _chat(rendered: Sequence[tuple[Message, str]], guidelines: str) -> tuple[ChatMessage, ...]:
    """Return the messages of a chat prompt, without empty ones.

    Leading system messages and the guidelines become one system message. Later system messages, and messages of tools,
    become messages of the assistant that begin with a mark of their role.
    """
    leading = _leading_system_messages(rendered)
    system = [text for _, text in rendered[:leading] if text]
    if guidelines:
        system.append(f"{GUIDELINES_HEADING}\n\n{guidelines}")
    chat = [ChatMessage("system", "\n\n".join(system))] if system else []
    for message, text in rendered[leading:]:
        if not text:
            continue
        if message.role in ("user", "assistant"):
            chat.append(ChatMessage("user" if message.role == "user" else "assistant", text))
        else:
            chat.append(ChatMessage("assistant", f"@[{message.role.capitalize()}]:\n{text}"))
    return tuple(chat)


class PreparedCase(Struct, frozen=True, gc=False):
    """A case prepared for one target."""

    task: CaseTask
    case: EvalCase
    prompt: PromptInputs
    request: ProviderRequest
    keys: CaseKeys
    answer_key: str
    """Requests with the same key may share an answer."""
    tags: tuple[str, ...]
    criteria: tuple[EvaluationCriteria, ...]
    evaluators: tuple[EvaluatorLike, ...]
    single_form: bool
    """True if the evaluator comes from the older form, `evaluator:`, or is the default judge; False for cases with
    turns.
    """
    is_workspace_missing: bool = False
    """True for a stored answer whose workspace was not kept."""


def prepare_case(task: CaseTask, case: EvalCase, *, target_key: str, form: PromptForm) -> PreparedCase:
    """Return the case of a task, prepared for the target that has the key `target_key`.

    In a conversation, `prompt` has the messages of all turns, `request` only that of the first turn; `prepared_turn`
    makes the request of each turn.
    """
    whole = _with_input(case, case.turns) if case.turns else case
    prompt = first = build_prompt(whole, quotes_paths_only=form.quotes_paths_only)
    if len(case.turns) > 1:
        first = build_prompt(_with_input(case, case.turns[:1]), quotes_paths_only=form.quotes_paths_only)
    request = ProviderRequest(
        question="",
        eval_case_id=case.id,
        eval_dir=task.suite.base_dir,
        trial=task.trial,
        prompt=case.prompt,
        metadata=case.metadata,
        timeout_s=task.target.try_timeout_s,
    )
    criteria = criteria_of(case, task.suite)
    evaluators, single_form = applicable_evaluators(case, task.suite)
    keys = keys_of(case, criteria)
    key = answer_key(keys.question, target_key, task.trial)
    return PreparedCase(
        task=task,
        case=case,
        prompt=prompt,
        request=_with_prompt(request, first, task.target, form),
        keys=keys,
        answer_key=key,
        tags=tags_of(case, task.suite),
        criteria=criteria,
        evaluators=evaluators,
        single_form=single_form and not case.is_conversation,
    )


def _with_prompt(
    request: ProviderRequest, prompt: PromptInputs, target: ResolvedTarget, form: PromptForm
) -> ProviderRequest:
    """Return a request with a prompt. The system prompt of the target precedes that of the case."""
    system_prompt, sent = target.system_prompt, prompt
    if form.takes_system_prompt and prompt.after_system is not None:
        sent = prompt.after_system
        system_prompt = "\n\n".join(filter(None, (system_prompt, prompt.system_prompt)))
    return replace(
        request,
        question=sent.question,
        chat_prompt=sent.chat_prompt,
        system_prompt=system_prompt,
        guidelines=sent.guidelines,
        guideline_files=sent.guideline_paths,
        input_files=sent.file_paths,
    )


def _with_input(case: EvalCase, turns: Sequence[CaseTurn]) -> EvalCase:
    """Return `case` without its turns; the user's messages of `turns` are appended to its input messages."""
    return replace(case, input_messages=(*case.input_messages, *[turn.input for turn in turns]), turns=())


def prepared_turn(
    prepared: PreparedCase, said: Sequence[CaseTurn], answers: Sequence[str], *, form: PromptForm
) -> PreparedCase:
    """Return the last of the turns `said` so far as a case whose input is the conversation until then.

    `answers` are the target's answers to the earlier turns. The result key and other keys stay those of the whole case.
    """
    case, turn = prepared.case, said[-1]
    history = case.input_messages
    for earlier_turn, answer in zip(said[:-1], answers, strict=True):
        history = (*history, earlier_turn.input, Message("assistant", answer))
    messages = _last_turns((*history, turn.input), case.turn_rules.window)
    turn_case = replace(
        case,
        input_messages=messages,
        expected_messages=turn.expected_messages,
        expected_outcome=turn.expected_outcome or case.expected_outcome,
        rubrics=turn.rubrics,
        turns=(),
    )
    prompt = build_prompt(turn_case, quotes_paths_only=form.quotes_paths_only)
    request = _with_prompt(replace(prepared.request, turn=len(said)), prompt, prepared.task.target, form)
    evaluators = evaluators_of_turn(turn)
    return replace(prepared, case=turn_case, prompt=prompt, request=request, evaluators=evaluators, single_form=False)


def _last_turns(messages: tuple[Message, ...], window: int | None) -> tuple[Message, ...]:
    """Return the last `window` turns of a conversation, after all earlier system messages.

    Return all messages if `window` is None.
    """
    turns = turns_of(messages)
    if window is None or len(turns) <= window:
        return messages
    start = turns[-window].start
    return (*(message for message in messages[:start] if message.role == "system"), *messages[start:])
