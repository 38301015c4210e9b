"""Code of promptfoo (assertions and Python providers) as functions that agentv calls, in modules beside the suite."""

import json
from pathlib import Path

from msgspec import Struct, field

from agentv.importers.promptfoo.javascript import JAVASCRIPT_JUDGE, RUNNER
from agentv.types.json_value import JsonValue

VARIABLES_KEY = "promptfoo_vars"
"""The entry of a case's metadata with the test's variables, which Python providers read."""

_IMPORT_HELPER = '''
HERE = Path(__file__).parent


def _function(path, name):
    """Return a function of another file."""
    spec = importlib.util.spec_from_file_location(Path(path).stem, HERE / path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, name)
'''

_JUDGES_HEAD = f'''"""Assertions of promptfoo that are code, called by `code_judge`."""

import importlib.util
from pathlib import Path
{_IMPORT_HELPER}

def _context(case):
    """Return the context that promptfoo passes as second argument, with the entries that are known here."""
    config, metadata = case["config"], case["metadata"]
    variables = config.get("vars", {{}})
    test = {{"vars": variables, "description": metadata.get("description", ""), "metadata": metadata}}
    context = {{"vars": variables, "prompt": case["question"], "test": test}}
    return {{**context, "config": config["config"]}} if "config" in config else context


def _result(value, config):
    """Return a bool, a score or a grading result as the result of a code judge."""
    threshold, is_negated = config.get("threshold"), config.get("negate", False)
    reason, parts = "", []
    if isinstance(value, dict):
        passed = value.get("pass", value.get("pass_"))
        score = float(value.get("score", bool(passed)))
        passed = score > 0 if passed is None else bool(passed)
        passed = passed and (threshold is None or score >= threshold)
        reason, parts = value.get("reason") or "", value.get("componentResults") or []
    elif isinstance(value, bool):
        passed, score = value, float(value != is_negated)
    else:
        score = float(value)
        passed = score > 0 if threshold is None else score >= threshold
    verdict = "pass" if passed != is_negated else "fail"
    lines = {{"hits": [], "misses": []}}
    for part in parts:
        lines["hits" if part.get("pass", part.get("pass_")) else "misses"].append(str(part.get("reason") or ""))
    return {{"score": min(max(score, 0.0), 1.0), "verdict": verdict, "reasoning": str(reason), **lines}}
'''

_EDITS_JUDGE = """def NAME(case):
    def edits(answer, expected):
        row = list(range(len(expected) + 1))
        for number, sign in enumerate(answer, 1):
            before, row[0] = row[0], number
            for at, other in enumerate(expected, 1):
                before, row[at] = row[at], min(row[at] + 1, row[at - 1] + 1, before + (sign != other))
        return row[-1]

    fewest = min(edits(case["candidate_answer"], text) for text in case["config"]["expected"])
    return {"score": 1.0 if fewest <= MOST else 0.0, "reasoning": f"{fewest} edits, at most MOST allowed"}
"""

_TARGETS_HEAD = f'''"""Python providers of promptfoo, called by targets of the provider `python`."""

import asyncio
import importlib.util
import inspect
import json
from pathlib import Path
{_IMPORT_HELPER}

def _answer(value):
    """Return the answer of a target, made from the value that a provider returned."""
    if inspect.isawaitable(value):
        value = asyncio.run(value)
    if isinstance(value, str):
        return value
    if value.get("error"):
        raise RuntimeError(value["error"])
    output = value.get("output")
    answer = {{"text": output if isinstance(output, str) else json.dumps(output)}}
    usage = value.get("tokenUsage")
    if usage:
        answer["usage"] = {{"input": usage.get("prompt"), "output": usage.get("completion")}}
    if value.get("cost") is not None:
        answer["cost_usd"] = value["cost"]
    return answer


def _prompt(request):
    """Return the prompt as promptfoo passes it: a text, or a chat as JSON."""
    if not request.chat_prompt:
        return request.question
    return json.dumps([{{"role": turn.role, "content": turn.content}} for turn in request.chat_prompt])


def _context(request):
    """Return the context that promptfoo passes as third argument, with the entries that are known here."""
    metadata = dict(request.metadata or {{}})
    variables = dict(metadata.pop("{VARIABLES_KEY}", {{}}))
    prompt = _prompt(request)
    test = {{"vars": variables, "description": metadata.get("description", ""), "metadata": metadata}}
    return {{"vars": variables, "prompt": {{"raw": prompt, "label": prompt}}, "test": test}}
'''


class PythonModule(Struct):
    """A module that is being made: its folder, its name with the suffix, and the code of its functions."""

    folder: Path
    name: str
    functions: list[str] = field(default_factory=list)
    names: dict[str, str] = field(default_factory=dict)

    def add(self, stem: str, body: str) -> str:
        """Add a function unless an equal one exists; its name replaces `NAME` in `body`. Return `module.py:name`."""
        if body not in self.names:
            name = f"{stem}_{len(self.functions) + 1}"
            self.functions.append(body.replace("NAME", name, 1))
            self.names[body] = name
        return f"{self.name}:{self.names[body]}"

    def add_named(self, name: str, text: str) -> str:
        """Add a function with a fixed name unless it exists. Return `module.py:name`."""
        if text not in self.functions:
            self.functions.append(text)
        return f"{self.name}:{name}"

    def text(self, head: str) -> str:
        """Return the text of the module; "" without functions."""
        return "\n\n".join((head, *self.functions)) if self.functions else ""


class PromptfooCode(Struct):
    """The modules of judges and of targets."""

    judges: PythonModule
    targets: PythonModule
    unread: dict[str, None] = field(default_factory=dict)
    """The names of the code that is called as it is."""

    def judge_of_file(self, path: Path, function: str) -> str:
        """Return the name of a judge that calls a Python function of a file."""
        self.unread.setdefault(path.name)
        return self._judge("", f"_function({relative_path(path, self.judges.folder)!r}, {function!r})")

    def judge_of_text(self, code: str) -> str:
        """Return the name of a judge that evaluates a Python expression, or lines that end with `return`."""
        self.unread.setdefault("Python in assertions")
        if "\n" not in code.strip():
            return self._judge("", f"(lambda output, context: {code.strip()})")
        lines = "\n".join(f"        {line}" if line.strip() else "" for line in code.strip("\n").split("\n"))
        return self._judge(f"    def check(output, context):\n{lines}\n\n", "check")

    def judge_of_javascript(self, name: str) -> str:
        """Return the name of the judge that runs the JavaScript in its config; `name` is that of the code."""
        self.unread.setdefault(name)
        return self.judges.add_named("javascript", JAVASCRIPT_JUDGE.replace("RUNNER", self._runner))

    @property
    def _runner(self) -> str:
        return f"{Path(self.judges.name).stem}.mjs"

    def judge_of_edits(self, max_edits: float) -> str:
        """Return the name of a judge that counts the edits from the answer to the nearest expected text."""
        return self.judges.add("judge", _EDITS_JUDGE.replace("MOST", f"{max_edits:g}"))

    def _judge(self, before: str, called: str) -> str:
        call = f'{called}(case["candidate_answer"], _context(case))'
        return self.judges.add("judge", f'def NAME(case):\n{before}    return _result({call}, case["config"])\n')

    def target_of_file(self, path: Path, function: str, config: JsonValue) -> str:
        """Return the `callable` of a target that calls a function of a file with promptfoo's arguments."""
        self.unread.setdefault(path.name)
        called = f"_function({relative_path(path, self.targets.folder)!r}, {function!r})"
        options = f"{{'config': json.loads({json.dumps(config or {}, ensure_ascii=False)!r})}}"
        return self.targets.add(
            "target",
            f"def NAME(request):\n    return _answer({called}(_prompt(request), {options}, _context(request)))\n",
        )

    def files(self) -> dict[str, str]:
        """Return the texts of the modules that have functions, by name."""
        texts = {self.judges.name: self.judges.text(_JUDGES_HEAD), self.targets.name: self.targets.text(_TARGETS_HEAD)}
        if self._runner in texts[self.judges.name]:
            texts[self._runner] = RUNNER
        return {name: text for name, text in texts.items() if text}


def relative_path(path: Path, folder: Path) -> str:
    """Return a path as seen from a folder, with slashes."""
    target, base = path.resolve(), folder.resolve()
    common = next(parent for parent in (base, *base.parents) if target.is_relative_to(parent))
    ups = len(base.relative_to(common).parts)
    return "/".join((*[".."] * ups, *target.relative_to(common).parts)) or "."
