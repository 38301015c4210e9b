"""Sessions of coding agents as conversations: real ones, and those whose rules only a built one shows."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.transcripts import ANSWER, SESSIONS, TRANSCRIPTS, claude_record, conversations_in, transcript_of

from agentv.messages.transcripts.reading import program_of, read_session
from agentv.messages.transcripts.turns import Conversation, Record, Turn, answers_of
from agentv.types.evaluation_input import EvaluationInput
from agentv.types.usage import Usage

TOOLS = {
    "claude": ["Bash", "Bash", "Write"],
    "codex": ["command_execution", "command_execution", "file_change"],
    "copilot": ["bash", "bash", "create"],
    "gemini": ["run_shell_command", "run_shell_command", "write_file"],
    "opencode": ["bash", "bash", "write"],
    "pi": ["bash", "bash", "write"],
}
COSTS = {"claude": 0.001792, "opencode": 0.0004, "pi": 0.0004}


def inputs_of(conversation: Conversation) -> list[EvaluationInput]:
    return [answer.given for answer in answers_of(conversation) if answer.given is not None]


def read(records: Sequence[dict[str, Any]]) -> Conversation:
    program = program_of(records[0])
    assert program is not None
    return read_session(program, [Record(line, value) for line, value in enumerate(records, 1)])


def prompts_of(conversation: Conversation) -> list[str]:
    return [turn.asked.text for turn in conversation.turns]


def codex_line(kind: str, **payload: Any) -> dict[str, Any]:
    return {"timestamp": "2026-01-01T00:00:00.000Z", "type": kind, "payload": payload}


def codex_message(role: str, text: str) -> dict[str, Any]:
    kind = "output_text" if role == "assistant" else "input_text"
    return codex_line("response_item", type="message", role=role, content=[{"type": kind, "text": text}])


def codex_count(total: int) -> dict[str, Any]:
    used = {"input_tokens": total, "output_tokens": total // 10}
    return codex_line("event_msg", type="token_count", info={"total_token_usage": used})


def pi_entry(number: str, parent: str | None, role: str, content: Any) -> dict[str, Any]:
    message = {"role": role, "content": content, "timestamp": 1_800_000_000_000}
    return {"type": "message", "id": number, "parentId": parent, "timestamp": "t", "message": message}


def gemini_message(number: str, kind: str, content: Any, **more: Any) -> dict[str, Any]:
    return {"id": number, "type": kind, "content": content, "timestamp": "2026-01-01T00:00:00.000Z", **more}


GEMINI_HEAD = {"sessionId": "s", "projectHash": "p", "startTime": "t", "kind": "main"}


PI_HEAD = {"type": "session", "version": 3, "id": "s", "timestamp": "t", "cwd": "/"}
IMAGE = {"type": "input_image", "image_url": "data:"}


@pytest.mark.parametrize("program", TOOLS)
def test_a_real_session_has_answer_calls_tokens_and_money(program: str, tmp_path: Path) -> None:
    (conversation,) = conversations_in(transcript_of(program, tmp_path))
    first = inputs_of(conversation)[0]

    assert (first.text, first.target, first.session_id) == (ANSWER, program, conversation.session)
    assert [call.tool for each in first.message_history for call in each.tool_calls] == TOOLS[program]
    assert all(
        call.output is not None and call.duration_ms for each in first.message_history for call in each.tool_calls
    )
    assert first.usage is not None
    assert (first.usage.input, first.usage.output, first.usage.cached_input) == (400, 40, 160)
    assert first.usage.requests == 4
    assert first.cost_usd == pytest.approx(COSTS.get(program))
    assert first.message_history[0].role == "user"
    assert "Note the amount" in str(first.message_history[0].content)
    assert first.duration_ms is not None
    assert first.timestamp is not None
    assert (conversation.unread, conversation.abandoned) == ((), ())


@pytest.mark.parametrize("program", ["gemini", "opencode"])
def test_earlier_turns_are_history_without_their_tool_calls(program: str, tmp_path: Path) -> None:
    (conversation,) = conversations_in(transcript_of(program, tmp_path))
    first, second = inputs_of(conversation)

    assert [message.role for message in second.message_history] == ["user", "assistant", "user"]
    assert second.message_history[1].content == first.text
    assert second.usage == Usage(100, 10, 40, 4, 110, 1)


def test_work_of_a_subagent_is_below_the_call_that_started_it() -> None:
    (conversation,) = conversations_in(TRANSCRIPTS / "claude-subagent" / "session.jsonl")
    first, second = inputs_of(conversation)

    inner = [message for message in first.message_history if message.metadata == {"parent_tool_call": "toolu_0"}]
    assert [call.tool for message in inner for call in message.tool_calls] == ["Bash"]
    assert inner[-1].content == "Sub says 20 euros."
    assert first.text == second.text == "It is 20 euros."
    assert (first.usage, second.usage) == (Usage(400, 40, 160, 0, 440, 4), Usage(100, 10, 40, 0, 110, 1))
    assert [first.cost_usd, second.cost_usd] == pytest.approx([0.001792, 0.000448])
    assert conversation.unread == ()


def test_a_file_of_a_subagent_alone_has_no_prompts() -> None:
    (path,) = (TRANSCRIPTS / "claude-subagent").rglob("agent-*.jsonl")
    (conversation,) = conversations_in(path)
    assert conversation.subagent_of == conversation.session
    assert conversation.turns == ()


@given(st.lists(st.integers(0, 30), min_size=1, max_size=12))
def test_only_the_branch_of_the_last_record_is_judged(parents: list[int]) -> None:
    records: list[dict[str, Any]] = []
    ancestors: list[list[str]] = []
    for number, drawn in enumerate(parents):
        before = drawn % (number + 1) - 1  # an earlier turn, or -1 for the root
        parent = None if before < 0 else f"a{before}"
        records.append(claude_record("user", f"u{number}", parent, f"prompt {number}"))
        answer = [{"type": "text", "text": f"answer {number}"}]
        records.append(claude_record("assistant", f"a{number}", f"u{number}", answer, message={"id": f"m{number}"}))
        ancestors.append([*([] if before < 0 else ancestors[before]), f"prompt {number}"])
    conversation = read(records)

    assert prompts_of(conversation) == ancestors[-1]
    assert len(conversation.abandoned) == len(parents) - len(ancestors[-1])


@given(st.lists(st.integers(1, 4), min_size=1, max_size=5))
def test_usage_that_repeats_per_content_block_counts_once(blocks: list[int]) -> None:
    records = [claude_record("user", "u", None, "Do it")]
    for number, count in enumerate(blocks):
        for block in range(count):
            usage = {"input_tokens": 10, "output_tokens": 5 if block == count - 1 else 1}
            content = [{"type": "text", "text": f"part {block}"}]
            message = {"id": f"m{number}", "usage": usage}
            records.append(
                claude_record("assistant", f"a{number}-{block}", records[-1]["uuid"], content, message=message)
            )
    (only,) = inputs_of(read(records))

    assert only.usage == Usage(
        input=10 * len(blocks), output=5 * len(blocks), total=15 * len(blocks), requests=len(blocks)
    )


@given(st.integers(1, 5), st.randoms(use_true_random=False))
def test_results_of_parallel_calls_belong_to_the_conversation(count: int, random: Any) -> None:
    """Each block of a message is a child of the one before, and each result a child of its call."""
    records = [claude_record("user", "u", None, "Do it")]
    for number in range(count):
        block = [{"type": "tool_use", "id": f"t{number}", "name": "Bash", "input": {}}]
        records.append(claude_record("assistant", f"a{number}", records[-1]["uuid"], block, message={"id": "m"}))
    order = list(range(count))
    random.shuffle(order)
    for number in order:
        block = [{"type": "tool_result", "tool_use_id": f"t{number}", "content": f"out {number}"}]
        records.append(claude_record("user", f"r{number}", f"a{number}", block))
    last = [{"type": "text", "text": "Done"}]
    records.append(claude_record("assistant", "last", records[-1]["uuid"], last, message={"id": "n"}))
    (only,) = inputs_of(read(records))

    calls = [call for message in only.message_history for call in message.tool_calls]
    assert {call.id: call.output for call in calls} == {f"t{number}": f"out {number}" for number in range(count)}
    assert only.text == "Done"


@pytest.mark.parametrize(
    "text",
    [
        "<local-command-stdout>x</local-command-stdout>",
        "<task-notification>done</task-notification>",
        "<bash-input>ls</bash-input>",
        "<ide_opened_file>The user opened a.py</ide_opened_file>",
        "<system-reminder>x</system-reminder>",
    ],
)
def test_texts_of_the_program_are_not_prompts(text: str) -> None:
    answer = [{"type": "text", "text": "Yes"}]
    records = [
        claude_record("user", "1", None, "Is it?"),
        claude_record("user", "2", "1", text),
        claude_record("assistant", "3", "2", answer),
    ]
    assert prompts_of(read(records)) == ["Is it?"]


@pytest.mark.parametrize(
    "content",
    [
        "<system-reminder>Be\nbrief.</system-reminder>\nIs it?",
        [
            {"type": "text", "text": "<ide_opened_file>The user opened a.py</ide_opened_file>"},
            {"type": "text", "text": "<ide_selection>line 3</ide_selection>"},
            {"type": "text", "text": "Is it?"},
        ],
    ],
    ids=["one text", "the editor's"],
)
def test_what_the_program_puts_in_front_of_a_prompt_is_left_out(content: Any) -> None:
    answer = [{"type": "text", "text": "Yes"}]
    assert prompts_of(
        read([claude_record("user", "1", None, content), claude_record("assistant", "2", "1", answer)])
    ) == ["Is it?"]


def test_what_claude_code_says_itself_when_a_session_is_resumed_is_no_answer() -> None:
    call = [{"type": "tool_use", "id": "t", "name": "Bash", "input": {}}]
    none = [{"type": "text", "text": "No response requested."}]
    own = {"model": "<synthetic>"}
    records = [
        claude_record("user", "1", None, "First"),
        claude_record("assistant", "2", "1", [{"type": "text", "text": "Done"}], message={"id": "m", "model": "opus"}),
        claude_record("user", "3", "2", "Continue from where you left off.", isMeta=True),
        claude_record("assistant", "4", "3", none, message={"id": "n", **own}),
        claude_record("user", "5", "4", "Killed"),
        claude_record("assistant", "6", "5", call, message={"id": "o"}),
        claude_record("user", "7", "6", "Continue from where you left off.", isMeta=True),
        claude_record("assistant", "8", "7", none, message={"id": "p", **own}),
    ]
    conversation = read(records)

    assert states_of(conversation.turns) == ["answered", "open"]
    (first, _) = answers_of(conversation)
    assert first.given is not None
    assert (first.given.text, first.given.model) == ("Done", "opus")


def test_a_command_is_a_prompt_only_if_the_agent_works_on_it() -> None:
    records = [
        claude_record("user", "1", None, "<command-name>/model</command-name>\n<command-args></command-args>"),
        claude_record("user", "2", "1", "<command-name>/review</command-name>\n<command-args>main</command-args>"),
        claude_record("assistant", "3", "2", [{"type": "text", "text": "Fine"}]),
    ]
    assert prompts_of(read(records)) == ["/review main"]


def states_of(turns: Sequence[Turn]) -> list[str]:
    return [turn.state for turn in turns]


def test_a_text_of_codex_is_the_answer_only_if_its_task_has_ended() -> None:
    """Before a call of a tool, the model says what it does."""
    records = [
        codex_line("session_meta", id="s"),
        *(
            codex_line("event_msg", type="task_started"),
            codex_message("user", "First"),
            codex_message("assistant", "A"),
        ),
        *(codex_line("event_msg", type="task_complete"), codex_line("event_msg", type="task_started")),
        *(codex_message("user", "Second"), codex_message("assistant", "I will look.")),
    ]
    assert states_of(read(records).turns) == ["answered", "open"]
    ended = codex_line("event_msg", type="task_complete")
    assert states_of(read([*records, ended]).turns) == ["answered", "answered"]
    killed = [codex_line("event_msg", type="task_started"), codex_message("user", "Third"), ended]
    assert states_of(read([*records, *killed]).turns) == ["answered", "open", "open"]


def test_a_text_before_a_call_that_is_not_written_yet_is_no_answer() -> None:
    text = [{"type": "text", "text": "Let me see"}]
    records = [
        claude_record("user", "1", None, "Do it"),
        claude_record("assistant", "2", "1", text, message={"id": "m", "stop_reason": "tool_use"}),
    ]
    assert states_of(read(records).turns) == ["open"]
    records[1]["message"]["stop_reason"] = "end_turn"
    assert states_of(read(records).turns) == ["answered"]


def test_a_session_of_claude_code_without_a_prompt_has_no_turns() -> None:
    text = [{"type": "text", "text": "Yes"}]
    records = [
        claude_record("user", "1", None, "Caveat: none of this was asked", isMeta=True),
        claude_record("assistant", "2", "1", text, requestId="r"),
    ]
    assert read(records).turns == ()


def test_what_a_resumed_session_repeats_under_new_ids_is_a_copy() -> None:
    """Claude Code 1.0.83 with `-p --continue`; the copies have no id of a request."""
    text = [{"type": "text", "text": "Yes"}]
    later = {"timestamp": "2026-01-01T00:00:03.000Z", "requestId": "r"}
    records = [
        claude_record("user", "1", None, "First"),
        claude_record("assistant", "2", "1", text, message={"id": "m1"}),
        claude_record("user", "3", "2", "Second"),
        claude_record("assistant", "4", "3", text, message={"id": "m2"}, **later),
    ]
    conversation = read(records)
    assert [turn.is_copy for turn in conversation.turns] == [True, False]
    assert prompts_of(conversation) == ["First", "Second"]


def test_an_answer_of_pi_that_the_user_stopped_is_no_failure() -> None:
    half = [{"type": "text", "text": "Let me"}]
    entries = [
        {"role": "user", "content": "Stopped"},
        {"role": "assistant", "content": half, "stopReason": "aborted"},
        {"role": "user", "content": "Failed"},
        {"role": "assistant", "content": [], "stopReason": "error", "errorMessage": "529 overloaded"},
    ]
    records: list[dict[str, Any]] = [{"type": "session", "id": "s", "timestamp": "2026-01-01T00:00:00Z", "cwd": "/"}]
    records += [{"type": "message", "message": each} for each in entries]
    assert states_of(read(records).turns) == ["open", "failed"]


def test_interrupted_failed_and_unfinished_prompts_have_no_answer() -> None:
    call = [{"type": "tool_use", "id": "t", "name": "Bash", "input": {}}]
    text = [{"type": "text", "text": "Let me see"}]
    records = [
        claude_record("user", "1", None, "Interrupted"),
        claude_record("assistant", "2", "1", text),
        claude_record("user", "3", "2", [{"type": "text", "text": "[Request interrupted by user]"}]),
        claude_record("user", "4", "3", "Failed"),
        claude_record("assistant", "5", "4", [{"type": "text", "text": "API Error: 500"}], isApiErrorMessage=True),
        claude_record("user", "6", "5", "Unfinished"),
        claude_record("assistant", "7", "6", call),
    ]
    conversation = read(records)

    assert states_of(conversation.turns) == ["open", "failed", "open"]
    assert conversation.turns[1].failure == "API Error: 500"


def test_a_record_whose_parent_is_lost_follows_the_one_before() -> None:
    text = [{"type": "text", "text": "Yes"}]
    records = [
        claude_record("user", "1", None, "First"),
        claude_record("assistant", "2", "1", text),
        claude_record("user", "4", "lost", "Second"),
        claude_record("assistant", "5", "4", text),
    ]
    assert prompts_of(read(records)) == ["First", "Second"]


@pytest.mark.parametrize("before", ["2", None])
def test_prompts_before_a_compaction_stay_in_the_conversation(before: str | None) -> None:
    text = [{"type": "text", "text": "Yes"}]
    boundary = claude_record("system", "3", None, "", subtype="compact_boundary", logicalParentUuid=before)
    records = [
        claude_record("user", "1", None, "First"),
        claude_record("assistant", "2", "1", text),
        boundary,
        claude_record("user", "4", "3", "This session is continued.", isCompactSummary=True),
        claude_record("user", "5", "4", "Second"),
        claude_record("assistant", "6", "5", text),
    ]
    assert prompts_of(read(records)) == ["First", "Second"]


def test_a_prompt_sent_while_the_agent_works_extends_the_one_before() -> None:
    call = [{"type": "tool_use", "id": "t", "name": "Bash", "input": {}}]
    queued = {"type": "queued_command", "prompt": "And quickly."}
    records = [
        claude_record("user", "1", None, "Do it."),
        claude_record("assistant", "2", "1", call),
        claude_record("attachment", "3", "2", "", attachment=queued),
        claude_record("assistant", "4", "3", [{"type": "text", "text": "Done"}], message={"id": "n"}),
    ]
    (only,) = read(records).turns
    assert (only.asked.text, only.state) == ("Do it.\n\nAnd quickly.", "answered")


@pytest.mark.parametrize(
    "records",
    [
        [claude_record("user", "1", None, [{"type": "image", "source": {}}])],
        [codex_line("session_meta", id="s"), codex_line("response_item", type="message", role="user", content=[IMAGE])],
        [GEMINI_HEAD, gemini_message("1", "user", [{"inlineData": {}}])],
        [PI_HEAD, pi_entry("1", None, "user", [{"type": "image", "data": ""}])],
        [{"info": {"id": "s", "version": "1"}, "messages": [{"info": {"role": "user"}, "parts": [{"type": "file"}]}]}],
    ],
)
def test_a_prompt_that_is_only_an_image_is_a_prompt(records: list[dict[str, Any]]) -> None:
    assert prompts_of(read(records)) == ["[attachment]"]


def test_unknown_types_are_named_with_their_line() -> None:
    records = [claude_record("user", "1", None, "First"), {"type": "news", "sessionId": "s"}]
    (unread,) = read(records).unread
    assert (unread.line, unread.what) == (2, "record of unknown type 'news'")


OLD_CODEX = [
    codex_line("session_meta", id="s", cli_version="0.50.0", cwd="/x"),
    codex_message("developer", "Obey"),
    codex_message("user", "<environment_context>\n</environment_context>"),
    codex_message("user", "First"),
    codex_line("response_item", type="function_call", name="shell", arguments='{"command": ["ls"]}', call_id="c"),
    codex_line(
        "event_msg", type="exec_command_end", call_id="c", command=["ls", "a b"], aggregated_output="x", exit_code=2
    ),
    codex_line("response_item", type="function_call_output", call_id="c", output="Exit code: 2"),
    codex_count(100),
    codex_count(100),
    codex_message("assistant", "One"),
    codex_count(250),
    codex_message("user", "Second"),
    codex_message("assistant", "Two"),
    codex_count(300),
]


def test_cumulative_counts_of_codex_are_taken_apart() -> None:
    first, second = inputs_of(read(OLD_CODEX))
    assert [(each.usage.input, each.usage.output) for each in (first, second) if each.usage] == [(250, 25), (50, 5)]
    (call,) = [call for message in first.message_history for call in message.tool_calls]
    assert (call.tool, call.input) == ("command_execution", {"command": "ls 'a b'"})
    assert call.output == {"error": "x", "exit_code": 2}


def test_records_of_usage_take_precedence_over_counts() -> None:
    used = {"input_tokens": 7, "output_tokens": 3}
    (first, _) = inputs_of(read([*OLD_CODEX[:-3], codex_line("token_usage_record", usage=used), *OLD_CODEX[-3:]]))
    assert first.usage == Usage(input=7, output=3, total=10, requests=1)


def test_turns_that_were_rolled_back_are_abandoned() -> None:
    conversation = read([*OLD_CODEX, codex_line("event_msg", type="thread_rolled_back", num_turns=1)])
    assert prompts_of(conversation) == ["First"]
    assert conversation.abandoned == (12,)


def test_a_thread_of_a_subagent_of_codex_is_not_a_session_of_the_user() -> None:
    spawn = {"subagent": {"thread_spawn": {"parent_thread_id": "main"}}}
    assert read([codex_line("session_meta", id="s", source=spawn), *OLD_CODEX[1:]]).subagent_of == "main"


def test_other_branches_of_pi_are_abandoned() -> None:
    said = [{"type": "text", "text": "Yes"}]
    conversation = read(
        [
            PI_HEAD,
            pi_entry("1", None, "user", "First"),
            pi_entry("2", "1", "assistant", said),
            pi_entry("3", "2", "user", "Left"),
            pi_entry("4", "3", "assistant", said),
            pi_entry("5", "2", "user", "Kept"),
            pi_entry("6", "5", "assistant", said),
        ]
    )
    assert prompts_of(conversation) == ["First", "Kept"]
    assert conversation.abandoned == (4,)


def fixture_records(program: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (TRANSCRIPTS / SESSIONS[program]).read_text().splitlines()]


def test_events_that_copilot_rewound_are_abandoned() -> None:
    records = fixture_records("copilot")
    prompt = next(each for each in records if each["type"] == "user.message")
    rewind = {"upToEventId": prompt["id"], "eventsRemoved": 9}
    conversation = read([*records, {"type": "session.snapshot_rewind", "data": rewind, "id": "x", "parentId": None}])
    assert (conversation.turns, conversation.abandoned) == ((), (2,))


def test_the_last_line_of_an_id_wins() -> None:
    tokens = {"input": 5, "output": 1, "total": 6}
    (only,) = inputs_of(
        read(
            [
                GEMINI_HEAD,
                gemini_message("1", "user", [{"text": "<session_context>x"}]),
                gemini_message("2", "user", [{"text": "First"}]),
                gemini_message("3", "gemini", "Half", tokens=tokens),
                gemini_message("3", "gemini", "Whole", tokens={**tokens, "output": 3}),
            ]
        )
    )
    assert only.text == "Whole"
    assert only.usage == Usage(input=5, output=3, total=8, requests=1)


def test_a_rewind_of_gemini_abandons_and_a_compression_does_not() -> None:
    start = [GEMINI_HEAD, gemini_message("1", "user", "First"), gemini_message("2", "gemini", "One")]
    summary = [gemini_message("9", "user", [{"text": "<state_snapshot>x"}])]
    later = [gemini_message("3", "user", "Second"), gemini_message("4", "gemini", "Two")]
    assert prompts_of(read([*start, {"$set": {"messages": summary}}, *later])) == ["First", "Second"]
    rewound = read([*start, *later, {"$rewindTo": "3"}])
    assert (prompts_of(rewound), rewound.abandoned) == (["First"], (4,))


def test_a_whole_chat_of_an_older_gemini_is_read(tmp_path: Path) -> None:
    messages = [gemini_message("1", "user", "First"), gemini_message("2", "gemini", "One")]
    path = tmp_path / "session.json"
    path.write_text(json.dumps({**GEMINI_HEAD, "messages": messages}, indent=2))
    (conversation,) = conversations_in(path)
    assert [each.text for each in inputs_of(conversation)] == ["One"]
