"""Python of promptfoo (assertions and providers) as functions that agentv calls, in modules beside the suite."""

import json
from pathlib import Path

from msgspec import Struct, field

from agentv.types.json_value import JsonValue

_IMPORT_HELPER = '''
HERE = Path(__file__).parent


def _function(path, name):
    """Return a function of another file."""
    spec = importlib.util.spec_from_file_location(Path(path).stem, HERE / path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, name)
'''

_JUDGES_HEAD = f'''"""Python assertions of promptfoo, called by `code_judge`."""

import importlib.util
from pathlib import Path
{_IMPORT_HELPER}

def _context(case):
    """Return the context that promptfoo passes as second argument, with the entries that are known here."""
    variables = case["config"].get("vars", {{}})
    return {{"vars": variables, "prompt": case["question"], "test": {{"vars": variables}}}}


def _result(value, threshold):
    """Return a bool, a score or a grading result as the result of a code judge; one that fails scores at most 0.5."""
    reason = ""
    if isinstance(value, dict):
        passed = value.get("pass", value.get("pass_"))
        score = float(value.get("score", bool(passed)))
        reason = value.get("reason", "")
    else:
        passed, score = (value if isinstance(value, bool) else None), float(value)
    if passed is None:
        passed = score > 0
    if threshold is not None:
        passed = passed and score >= threshold
    return {{"score": max(score, 0.8) if passed else min(score, 0.5), "reasoning": reason}}
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

    def text(self, head: str) -> str:
        """Return the text of the module; "" without functions."""
        return "\n\n".join((head, *self.functions)) if self.functions else ""


class PythonCode(Struct):
    """The modules of judges and of targets."""

    judges: PythonModule
    targets: PythonModule

    def judge_of_file(self, path: Path, function: str, threshold: float | None) -> str:
        """Return the name of a judge that calls a function of a file."""
        called = f"_function({relative_path(path, self.judges.folder)!r}, {function!r})"
        return self._judge("", called, threshold)

    def judge_of_text(self, code: str, threshold: float | None) -> str:
        """Return the name of a judge that evaluates an expression, or lines that end with `return`."""
        if "\n" not in code.strip():
            return self._judge("", f"(lambda output, context: {code.strip()})", threshold)
        lines = "\n".join(f"        {line}" if line.strip() else "" for line in code.strip("\n").split("\n"))
        return self._judge(f"    def check(output, context):\n{lines}\n\n", "check", threshold)

    def judge_of_edits(self, max_edits: float) -> str:
        """Return the name of a judge that counts the edits from the answer to the nearest expected text."""
        return self.judges.add("judge", _EDITS_JUDGE.replace("MOST", f"{max_edits:g}"))

    def _judge(self, before: str, called: str, threshold: float | None) -> str:
        call = f'{called}(case["candidate_answer"], _context(case))'
        return self.judges.add("judge", f"def NAME(case):\n{before}    return _result({call}, {threshold})\n")

    def target_of_file(self, path: Path, function: str, config: JsonValue) -> str:
        """Return the `callable` of a target that calls a function of a file with promptfoo's arguments."""
        called = f"_function({relative_path(path, self.targets.folder)!r}, {function!r})"
        options = f"{{'config': json.loads({json.dumps(config or {}, ensure_ascii=False)!r})}}"
        context = "{'vars': dict(request.metadata or {})}"
        return self.targets.add(
            "target", f"def NAME(request):\n    return _answer({called}(_prompt(request), {options}, {context}))\n"
        )

    def files(self) -> dict[str, str]:
        """Return the texts of the modules that have functions, by name."""
        texts = {self.judges.name: self.judges.text(_JUDGES_HEAD), self.targets.name: self.targets.text(_TARGETS_HEAD)}
        return {name: text for name, text in texts.items() if text}


def relative_path(path: Path, folder: Path) -> str:
    """Return a path as seen from a folder, with slashes."""
    target, base = path.resolve(), folder.resolve()
    common = next(parent for parent in (base, *base.parents) if target.is_relative_to(parent))
    ups = len(base.relative_to(common).parts)
    return "/".join((*[".."] * ups, *target.relative_to(common).parts)) or "."
