"""What is kept of a config is found by the config itself, and the oldest of it goes."""

from agentv import EvaluatorConfig
from agentv.engine.calling.runtime import LRUCache


def config(name: str) -> EvaluatorConfig:
    return EvaluatorConfig(name, "contains", {"value": name})


def test_a_part_belongs_to_one_config_object_and_to_no_equal_one() -> None:
    kept: LRUCache[str] = LRUCache(2)
    first, twin = config("a"), config("a")
    kept.keep(first, "part")
    assert kept.get(first) == "part"
    assert kept.get(twin) is None


def test_what_was_not_used_for_longest_goes() -> None:
    kept: LRUCache[str] = LRUCache(2)
    configs = {name: config(name) for name in "abc"}
    kept.keep(configs["a"], "a")
    kept.keep(configs["b"], "b")
    assert kept.get(configs["a"]) == "a"
    kept.keep(configs["c"], "c")
    assert [kept.get(configs[name]) for name in "abc"] == ["a", None, "c"]


def test_a_config_that_is_gone_leaves_its_part_to_nobody() -> None:
    kept: LRUCache[int] = LRUCache(1000)
    for number in range(500):
        made = config("a")  # each may stand where an earlier one stood in memory
        assert kept.get(made) is None
        kept.keep(made, number)
