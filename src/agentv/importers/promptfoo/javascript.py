"""JavaScript assertions of promptfoo: a judge that runs them with node, and the program that node runs."""

import re

JAVASCRIPT_JUDGE = '''def javascript(case):
    """Run an expression, the lines of a function, or the function of a file with node."""
    import json
    import shutil
    import subprocess

    node, config = shutil.which("node"), case["config"]
    if node is None:
        return {"skipped": "this check is JavaScript, and node is not installed"}
    given = {"output": case["candidate_answer"], "context": _context(case), "code": config.get("code")}
    if "file" in config:
        given |= {"file": str((HERE / config["file"]).resolve()), "function": config.get("function")}
    command = [node, str(HERE / "RUNNER")]
    done = subprocess.run(command, input=json.dumps(given), capture_output=True, encoding="utf-8")
    if done.returncode:
        raise RuntimeError(f"node ended with exit code {done.returncode}: {done.stderr.strip()[-2000:]}")
    outcome = json.loads(done.stdout.strip().splitlines()[-1])
    if "thrown" in outcome:  # promptfoo fails the answer, too
        return {"score": 0.0, "verdict": "fail", "reasoning": f"the check threw: {outcome['thrown']}"}
    result = outcome["result"]
    return _result(result, {**config, "threshold": None} if isinstance(result, dict) else config)
'''
"""A function of the module with the judges; RUNNER is the name of the program's file."""

RUNNER = r"""// Runs one JavaScript assertion of promptfoo: reads answer and code as JSON, prints the result as JSON.
// It ends with exit code 1 if the check itself is broken: it cannot be loaded, or reads what agentv does not know.
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';

class NotKnownError extends Error {}

// Returns an object whose other entries raise an error instead of being undefined.
function partlyKnown(name, known) {
  return new Proxy(known, {
    get(target, key) {
      if (typeof key === 'symbol' || key in target || key === 'then' || key === 'toJSON') return target[key];
      throw new NotKnownError(`context.${name}.${key} is not known to agentv`);
    },
  });
}

function completed(context, output) {
  context.provider = partlyKnown('provider', {});
  context.providerResponse = partlyKnown('providerResponse', { output, raw: output });
  Object.defineProperty(context, 'logProbs', {
    get() {
      throw new NotKnownError('context.logProbs is not known to agentv');
    },
  });
  return context;
}

// Returns the position of the last semicolon that is outside of quotes, -1 if there is none.
function lastSemicolon(code) {
  let quote = null;
  let found = -1;
  for (let at = 0; at < code.length; at += 1) {
    const sign = code[at];
    if (sign === '\\') at += 1;
    else if (quote !== null) quote = sign === quote ? null : quote;
    else if ('\'"`'.includes(sign)) quote = sign;
    else if (sign === ';') found = at;
  }
  return found;
}

// Several lines are the body of a function; a single line is an expression, possibly after declarations.
function bodyOf(code) {
  const text = code.trimEnd();
  if (text.includes('\n')) return text;
  const line = text.trim().replace(/[;\s]+$/, '');
  if (!/^(?:const|let|var)\s/.test(line)) return `return ${line}`;
  const at = lastSemicolon(line);
  if (at < 0) throw new Error('no expression follows the declarations; write several lines that end with return');
  return `${line.slice(0, at + 1)} return ${line.slice(at + 1)}`;
}

function checkOf(code) {
  const require = createRequire(import.meta.url);
  const shim = Object.assign(Object.create(process), { mainModule: { require, exports: {} } });
  const check = new Function('output', 'context', 'process', bodyOf(code));
  return (output, context) => check(output, context, shim);
}

async function checkOfFile(file, name) {
  const loaded = await import(pathToFileURL(file).href);
  const places = name ? [loaded[name], loaded.default?.[name]] : [loaded.default, loaded.default?.default];
  const check = places.find((each) => typeof each === 'function');
  if (!check) throw new Error(`${file} exports no function${name ? ` ${name}` : ''}`);
  return check;
}

// Returns a result without the entries that agentv does not read; raises an error for a value of another type.
function checked(result) {
  const type = result === null ? 'null' : typeof result;
  if (type === 'boolean' || (type === 'number' && Number.isFinite(result))) return result;
  if (type === 'object' && typeof result.pass === 'boolean' && Number.isFinite(result.score)) {
    const parts = Array.isArray(result.componentResults) ? result.componentResults : [];
    const componentResults = parts.map((part) => ({ pass: Boolean(part?.pass), reason: String(part?.reason ?? '') }));
    return { pass: result.pass, score: result.score, reason: String(result.reason ?? ''), componentResults };
  }
  throw new TypeError(`it returned ${type}, not a boolean, a number or {pass, score, reason}`);
}

const given = JSON.parse(readFileSync(0, 'utf8'));
console.log = console.info = console.debug = console.error; // standard output is for the result
const check = given.file ? await checkOfFile(given.file, given.function) : checkOf(given.code);
let outcome;
try {
  outcome = { result: checked(await check(given.output, completed(given.context, given.output))) };
} catch (error) {
  // A check that reads a name that does not exist is broken, whatever the answer is.
  if (error instanceof NotKnownError || error instanceof ReferenceError) throw error;
  outcome = { thrown: String(error?.message ?? error) };
}
process.stdout.write(`\n${JSON.stringify(outcome)}\n`, () => process.exit(0));
"""
"""The program that node runs. Its rules for code and results are those of promptfoo's documentation."""

JAVASCRIPT_SUFFIXES = (".js", ".mjs", ".cjs")
"""The suffixes of files that node runs; TypeScript is not among them."""

_ENTRY = re.compile(r"\boutput\s*(?:\?\.|\.)\s*([A-Za-z_$][\w$]*)|\boutput\s*(?:\?\.)?\[\s*(['\"`])")
_STRING_ENTRIES = frozenset({
    "at", "charAt", "charCodeAt", "codePointAt", "concat", "constructor", "endsWith", "includes", "indexOf",
    "isWellFormed", "lastIndexOf", "length", "localeCompare", "match", "matchAll", "normalize", "padEnd",
    "padStart", "repeat", "replace", "replaceAll", "search", "slice", "split", "startsWith", "substr", "substring",
    "toLocaleLowerCase", "toLocaleUpperCase", "toLowerCase", "toString", "toUpperCase", "toWellFormed", "trim",
    "trimEnd", "trimLeft", "trimRight", "trimStart", "valueOf",
})  # fmt: skip


def entry_of_output(code: str) -> str | None:
    """Return the first entry of `output` that code reads and a text does not have; None if there is none.

    In promptfoo the output may be an object, here it is always a text.
    """
    for match in _ENTRY.finditer(code):
        if match[1] not in _STRING_ENTRIES:
            return match[1] or match[0]
    return None
