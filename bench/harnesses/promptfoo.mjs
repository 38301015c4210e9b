// promptfoo as its guide calls it from Node: runs the warm-up and the job of job.json, and prints its measurements.
import { readFileSync } from "node:fs";
import promptfoo from "promptfoo";

const job = JSON.parse(readFileSync("job.json", "utf8"));
const model = { id: "openai:chat:fake", config: { apiBaseUrl: job.url } };
const targets = {
  echo: async (prompt) => ({ output: prompt }),
  ask: model,
  judge: model,
  commands: `exec:${job.command}`,
};

function prepare(questions) {
  const contains = { type: "contains", value: job.expected };
  const graded = { type: "llm-rubric", value: job.rubric, provider: model };
  const suite = {
    prompts: ["{{question}}"],
    providers: [targets[job.kind]],
    tests: questions.map((question) => ({ vars: { question } })),
    defaultTest: { assert: [job.kind === "judge" ? graded : contains] },
  };
  const options = { maxConcurrency: job.at_once, cache: false, showProgressBar: false };
  return async () => (await (await promptfoo.evaluate(suite, options)).toEvaluateSummary()).stats.successes;
}

async function run(evaluate, cases) {
  const passed = await evaluate();
  if (passed !== cases) {
    console.error(`only ${passed} of ${cases} cases passed`);
    process.exit(1);
  }
}

await run(prepare(job.warming), job.warming.length);
const evaluate = prepare(job.questions);
globalThis.gc();
const cpu = process.cpuUsage(), wall = performance.now();
await run(evaluate, job.questions.length);
const used = process.cpuUsage(cpu);
const took = {
  cpu_s: (used.user + used.system) / 1e6,
  wall_s: (performance.now() - wall) / 1e3,
  peak_mb: (process.resourceUsage().maxRSS * 1024) / 1e6,
};
console.log("\n" + JSON.stringify(took));
process.exit(0); // its timers would keep the process alive
