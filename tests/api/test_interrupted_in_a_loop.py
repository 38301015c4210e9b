"""Ctrl-C while `evaluate` waits for its thread in a running event loop, as in a notebook."""

import asyncio
import threading
from typing import Any

import pytest

from agentv import EvalCase, EvaluatorConfig, evaluate


class Interrupted(threading.Thread):
    """A thread whose first `join` is interrupted: before the thread does anything, or after its end."""

    is_late = False

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.is_ours = self.name == "agentv-evaluate"
        self.may_run = threading.Event()
        self.has_been_joined = False

    def run(self) -> None:
        if self.is_ours:
            self.may_run.wait()
        super().run()

    def join(self, timeout: float | None = None) -> None:
        is_first, self.has_been_joined = not self.has_been_joined, True
        if self.is_ours and is_first and not self.is_late:
            raise KeyboardInterrupt
        self.may_run.set()
        super().join(timeout)
        if self.is_ours and is_first:
            raise KeyboardInterrupt


class InterruptedLate(Interrupted):
    is_late = True


def interrupted_calls(monkeypatch: pytest.MonkeyPatch, thread: type[threading.Thread]) -> list[str]:
    """Return the questions that the target got in an `evaluate` which is interrupted."""
    calls: list[str] = []

    def answer(request: Any) -> str:
        calls.append(request.eval_case_id)
        return "4"

    async def in_loop() -> None:
        evaluate(
            [EvalCase("sum", "What is 2 + 2?")],
            task=answer,
            evaluators=[EvaluatorConfig("four", "contains", {"value": "4"})],
        )

    with monkeypatch.context() as patched:
        patched.setattr(threading, "Thread", thread)
        with pytest.raises(KeyboardInterrupt):
            asyncio.run(in_loop())
    return calls


def test_an_interrupt_before_the_first_step_calls_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert interrupted_calls(monkeypatch, Interrupted) == []


def test_an_interrupt_after_the_end_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    assert interrupted_calls(monkeypatch, InterruptedLate) == ["sum"]
