-- Store each result once, even if a run wrote it twice. The key is the result key and the generation; lines without a
-- key are not compared.

DELETE FROM agentv.results AS later USING agentv.results AS first
WHERE later.run_id = first.run_id AND later.seq > first.seq
    AND (later.suite, later.eval_id, later.target, later.trial) = (first.suite, first.eval_id, first.target, first.trial)
    AND coalesce(later.prompt, '') = coalesce(first.prompt, '')
    AND coalesce(later.generation, 0) = coalesce(first.generation, 0);

CREATE UNIQUE INDEX results_by_key ON agentv.results (
    run_id, suite, eval_id, (coalesce(prompt, '')), target, trial, (coalesce(generation, 0))
);
