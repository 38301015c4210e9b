"""The cache by config: entries are found by the config object, and the least recently used one is dropped."""

from agentv import EvaluatorConfig
from agentv.engine.calling.runtime import LRUCache


def config(name: str) -> EvaluatorConfig:
    return EvaluatorConfig(name, "contains", {"value": name})


def test_entry_belongs_to_one_config_object_not_to_equal_ones() -> None:
    cache: LRUCache[str] = LRUCache(2)
    first, twin = config("a"), config("a")
    cache.put(first, "part")
    assert cache.get(first) == "part"
    assert cache.get(twin) is None


def test_least_recently_used_entry_is_dropped() -> None:
    cache: LRUCache[str] = LRUCache(2)
    configs = {name: config(name) for name in "abc"}
    cache.put(configs["a"], "a")
    cache.put(configs["b"], "b")
    assert cache.get(configs["a"]) == "a"
    cache.put(configs["c"], "c")
    assert [cache.get(configs[name]) for name in "abc"] == ["a", None, "c"]


def test_entry_of_a_freed_config_is_not_found_by_a_new_one() -> None:
    cache: LRUCache[int] = LRUCache(1000)
    for number in range(500):
        made = config("a")  # each may have the memory address of an earlier one
        assert cache.get(made) is None
        cache.put(made, number)
