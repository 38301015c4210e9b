"""What a judge's report card calls an answer."""

from agentv.reports.judge import key_text
from agentv.types.records.answer import ResultKey


def test_trials_of_an_answer_count_from_one() -> None:
    assert key_text(ResultKey("s.yaml", "c-3", "agent", 1)) == "c-3 · agent trial 2"
    assert key_text(ResultKey("s.yaml", "c-3", "agent")) == "c-3 · agent"
