"""Configurations of promptfoo from a seed, with parts that agentv cannot convert, and what each test may end with.

The provider is promptfoo's `echo`; every prompt begins with ANSWER, so that assertions on it have a known outcome.
"""

from random import Random
from typing import Any

from msgspec import Struct, field

ANSWER = "Paris is the capital of France"

PASSING: tuple[dict[str, Any], ...] = (
    {"type": "contains", "value": "capital of"},
    {"type": "icontains", "value": "PARIS"},
    {"type": "not-contains", "value": "Rome"},
    {"type": "contains-any", "value": ["Rome", "Paris"]},
    {"type": "contains-all", "value": "Paris, capital"},
    {"type": "starts-with", "value": "Paris"},
    {"type": "regex", "value": "capital of \\w+"},
    {"type": "contains", "value": "{{ country }}"},
    {"type": "word-count", "value": {"min": 3}},
    {"type": "javascript", "value": "output.includes('Paris')"},
    {"type": "javascript", "value": "output.length < 2000"},
    {"type": "assert-set", "assert": [{"type": "contains", "value": "Paris"}, {"type": "not-equals", "value": "x"}]},
    {"type": "assert-set", "threshold": 0.5, "assert": [{"type": "contains", "value": "Paris"},
                                                        {"type": "contains", "value": "Rome"}]},
)  # fmt: skip
FAILING: tuple[dict[str, Any], ...] = (
    {"type": "contains", "value": "Rome"},
    {"type": "equals", "value": "Paris"},
    {"type": "not-icontains", "value": "paris"},
    {"type": "contains-all", "value": ["Paris", "Rome"]},
    {"type": "regex", "value": "^capital"},
    {"type": "is-json"},
    {"type": "javascript", "value": "output.length > 2000"},
    {"type": "assert-set", "assert": [{"type": "contains", "value": "Rome"}, {"type": "contains", "value": "Paris"}]},
)
BY_CODE: dict[bool, tuple[dict[str, Any], ...]] = {
    True: (
        {"type": "python", "value": "'Paris' in output and context['vars']['country'] == 'France'"},
        {"type": "javascript", "value": "output.split(' ').length > 2 && context.vars.country === 'France'"},
        {
            "type": "javascript",
            "value": "const words = output.split(' ');\nreturn {pass: true, score: 1, reason: words[0]};",
        },
        {"type": "javascript", "value": "file://check.cjs:hasParis"},
    ),
    False: (
        {"type": "python", "value": "len(output) > 2000"},
        {"type": "javascript", "value": "JSON.parse(output).country === 'France'"},
        {"type": "javascript", "value": "file://check.cjs:hasRome"},
        {"type": "not-javascript", "value": "Number(output.length > 3)"},
    ),
}
"""Assertions that run Python or node, by their outcome."""
LOST: tuple[dict[str, Any], ...] = (
    {"type": "is-html"},
    {"type": "not-contains-xml"},
    {"type": "is-sql"},
    {"type": "webhook", "value": "https://example.org/check"},
    {"type": "moderation"},
    {"type": "guardrails"},
    {"type": "classifier", "provider": "huggingface:text-classification:x", "value": "polite"},
    {"type": "max-score", "value": "x"},
    {"type": "select-best", "value": "the shortest"},
    {"type": "perplexity", "threshold": 5},
    {"type": "meteor", "value": "Paris"},
    {"type": "no-such-type", "value": "x"},
    {"type": "ruby", "value": "output.include?('Paris')"},
    {"type": "contains", "value": "file://make.js"},
    {"type": "contains", "value": "{% if country %}Paris{% endif %}"},
    {"type": "contains", "value": "{{ country | sort }}"},
    {"type": "not-contains", "value": "{{ country | reverse }}"},
    {"type": "contains", "value": "Paris", "transform": "output.toUpperCase()"},
    {"type": "contains"},
    {"type": "contains-any", "value": [{"a": 1}, "Paris"]},
    {"type": "cost", "threshold": "cheap"},
    {"type": "javascript", "value": "file://check.ts"},
    {"type": "javascript", "value": "file://missing.js"},
    {"type": "javascript", "value": "output.answer === undefined"},
    {"type": "javascript", "value": "{{ country }} !== 1"},
    {"type": "javascript", "value": "package:checks:run"},
    {"type": "python", "value": "file://check.sh"},
    {"type": "python", "value": "file://missing.py"},
    {"type": "python", "value": "{{ country }} != 1"},
    {"type": "llm-rubric", "value": "polite", "provider": "bedrock:no-counterpart"},
    {"type": "assert-set", "assert": [{"type": "is-html"}, {"type": "contains", "value": "Paris"}]},
    {"type": "assert-set", "threshold": 0.5, "assert": [{"type": "is-xml"}, {"type": "contains", "value": "Paris"}]},
)
"""Assertions that agentv cannot make."""
UNASKED: tuple[dict[str, Any], ...] = (
    {"vars": {"country": "file://country.js"}},
    {"vars": {"country": "file://map.png"}},
    {"vars": {"country": "France", "question": "{% if x %}a{% endif %}"}},
    {"options": {"transform": "output.trim()"}},
    {"options": {"postprocess": "output.trim()"}},
    {"options": {"transformVars": "({...vars})"}},
    {"assertScoringFunction": "file://score.js"},
    {"provider": "bedrock:no-counterpart"},
    {"providers": ["no-such-provider"]},
    {"prompts": ["no-such-prompt"]},
    {"threshold": "high"},
    {"vars": {"country": "France", "earlier": "{{ stored }} {{ more }}"}},
)
"""Parts of tests without which a test cannot be asked, or its answer not be judged."""
LOST_PROMPTS: tuple[Any, ...] = (
    "exec:./prompt.sh",
    {"raw": "exec:./prompt.sh", "label": "script"},
    "file://prompt.py:make",
    "file://missing.txt",
    "langfuse://prompt:3",
    {"id": "python:prompt.py", "label": "made"},
    {"raw": f"{ANSWER}", "label": "prefixed", "prefix": "Now: "},
    f"{ANSWER} {{% for x in country %}}{{{{ x }}}}{{% endfor %}}",
    f"{ANSWER} {{{{ country | reverse }}}}",
    f"{ANSWER} {{{{ env.HOME }}}}",
    f'[{{"role": "user", "content": "{ANSWER}", "tool_calls": []}}]',
    f'[{{"role": "user", "content": [{{"type": "text", "text": "{ANSWER}"}}, {{"type": "image_url"}}]}}]',
    f'[{{"role": "user", "content": "{ANSWER}"}}, {{% for m in _conversation %}} {{% endfor %}}]',
)
LOST_TESTS: tuple[Any, ...] = (
    "file://tests.xlsx",
    "file://tests.js",
    "file://no-such-tests.yaml",
    "huggingface://datasets/x",
    {"path": "file://tests.py:rows"},
    7,
)
"""Entries of `tests` whose tests cannot be read."""
FILES = {
    "check.cjs": "module.exports = {hasParis: (o) => o.includes('Paris'), hasRome: (o) => o.includes('Rome')};\n",
    "check.ts": "export default () => true;\n",
    "tests.xlsx": "PK",
    "make.js": "module.exports = () => 'Paris';\n",
    "country.js": "module.exports = () => ({output: 'France'});\n",
    "map.png": "PNG",
    "prompt.sh": "#!/bin/sh\necho Paris is the capital of France\n",
}
"""The files that configurations name."""


class Made(Struct):
    """A configuration, the allowed ends of each test by its description, and the number of tests without one."""

    config: dict[str, Any]
    ends: dict[str, frozenset[str]] = field(default_factory=dict)
    lost_prompts: bool = False
    """True if some of several prompts are lost, whose results are skipped."""


def make_config(seed: int, *, with_node: bool) -> Made:
    """Return the configuration of a seed; `with_node` is True if JavaScript can run."""
    rng = Random(seed)
    prompts: list[Any] = [
        f"{ANSWER}{sign}{{{{ country }}}}{{{{ x }}}}" for sign in (": ", "? ", "! ")[: rng.randint(1, 2)]
    ]
    all_lost = some_lost = False
    if rng.random() < 0.15:
        all_lost, prompts = True, [rng.choice(LOST_PROMPTS)]
    elif rng.random() < 0.15:
        some_lost = True
        prompts.insert(rng.randrange(len(prompts) + 1), rng.choice(LOST_PROMPTS))
    config: dict[str, Any] = {"prompts": prompts, "providers": ["echo"], "tests": []}
    default, lost_of_all, undecided = _defaults(rng, config)
    made = Made(config, lost_prompts=some_lost)
    for number in range(rng.randint(1, 6)):
        description = f"case {number}"
        test, ends = _test(rng, with_node=with_node, lost_default=undecided)
        config["tests"].append({"description": description, **test})
        made.ends[description.replace(" ", "-")] = frozenset({"skipped"}) if all_lost or lost_of_all else ends
    if rng.random() < 0.15:
        config["tests"].insert(0, rng.choice(LOST_TESTS))
    if default:
        config["defaultTest"] = default
    return made


def _defaults(rng: Random, config: dict[str, Any]) -> tuple[dict[str, Any], bool, bool]:
    """Return `defaultTest`, True if all tests are lost with it, and True if it has a lost assertion."""
    chance = rng.random()
    if chance < 0.06:
        return {"options": {"transform": "output.trim()"}}, True, False
    if chance < 0.1:
        config["providers"] = [{"id": "echo", "transform": "output.trim()"}]
        return {}, True, False
    if chance < 0.12:
        config["extensions"] = ["file://hooks.py:before"]
        return {}, True, False
    if chance < 0.2:
        return {"assert": [rng.choice(LOST)]}, False, True
    if chance < 0.3:
        return {"assert": [{"type": "latency", "threshold": 60_000}]}, False, False
    return {}, False, False


def _test(rng: Random, *, with_node: bool, lost_default: bool) -> tuple[dict[str, Any], frozenset[str]]:
    """Return a test and the states that its results may have."""
    test: dict[str, Any] = {"vars": {"country": "France", "x": rng.randint(0, 9)}}
    asserts: list[dict[str, Any]] = []
    passes = True
    for _ in range(rng.randint(1, 3)):
        fails = rng.random() < 0.2
        pool = BY_CODE[not fails] if with_node and rng.random() < 0.02 else (FAILING if fails else PASSING)
        asserts.append(rng.choice(pool))
        passes = passes and not fails
    test["assert"] = asserts
    if rng.random() < 0.1:
        test |= rng.choice(UNASKED)
        return test, frozenset({"skipped"})
    is_lossy = lost_default
    if rng.random() < 0.3:
        kept = rng.randint(0, len(asserts)) if rng.random() < 0.5 else 0
        passes = passes if kept == len(asserts) else True
        is_lossy = True
        test["assert"] = [*asserts[:kept], rng.choice(LOST)]
        rng.shuffle(test["assert"])
        if kept not in (0, len(asserts)):
            return test, frozenset({"skipped", "fail"})
    if is_lossy and rng.random() < 0.15:
        return test | {"threshold": 0.3}, frozenset({"skipped"})
    if is_lossy:
        return test, frozenset({"skipped"} if passes else {"fail"})
    return test, frozenset({"pass" if passes else "fail"})
