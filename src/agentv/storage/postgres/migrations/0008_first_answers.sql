-- The results that count: of each slot (suite, case, prompt, target, trial) the first answer without an error to its
-- current question, with its newest judging. `rerun` marks further answers.

ALTER TABLE agentv.answers ADD COLUMN rerun text;
ALTER TABLE agentv.results ADD COLUMN rerun text;
ALTER TABLE agentv.results ADD COLUMN answer_seq bigint;
ALTER TABLE agentv.results ADD COLUMN error_stage text;

CREATE INDEX results_made_again ON agentv.results (run_id) WHERE generation > 0;

-- Only runs with several generations need these columns. In a line, quotes within texts are escaped.
UPDATE agentv.results SET
    answer_seq = substring(convert_from(line, 'UTF8') FROM '"answer_ref":\{"seq":(\d{1,18})\}')::bigint,
    error_stage = substring(convert_from(line, 'UTF8') FROM '"error":\{"stage":"(evaluator)"')
WHERE status IS NOT NULL AND run_id IN (SELECT run_id FROM agentv.results WHERE generation > 0);

CREATE VIEW agentv.counted_results AS
WITH made_again AS (
    SELECT DISTINCT run_id FROM agentv.results WHERE generation > 0
), with_answered AS (
    SELECT *, coalesce(generation, 0) AS number, rerun IS NULL AND status <> 'skipped' AND (
        status <> 'error' OR (error_stage = 'evaluator' AND error_kind IS DISTINCT FROM 'target_missing')
    ) AS is_answered
    FROM agentv.results WHERE run_id IN (SELECT run_id FROM made_again)
), with_first AS (
    SELECT *,
        bool_or(is_answered) OVER question AS has_answer,
        min(number) FILTER (WHERE is_answered) OVER question AS first_number,
        first_value(answer_seq) OVER (question ORDER BY is_answered DESC NULLS LAST, number, seq) AS first_answer
    FROM with_answered
    WINDOW question AS (PARTITION BY run_id, suite, eval_id, target, trial, prompt, answer_key)
), with_counted AS (
    SELECT *, max(number) FILTER (
        WHERE rerun IS NULL AND (
            has_answer IS NOT TRUE OR number <= first_number OR answer_seq IS NOT DISTINCT FROM first_answer
        )
    ) OVER (PARTITION BY run_id, suite, eval_id, target, trial, prompt) AS counted
    FROM with_first
), counted AS (
    SELECT run_id, seq FROM with_counted WHERE rerun IS NULL AND number = counted
    UNION ALL
    SELECT run_id, seq FROM agentv.results WHERE run_id NOT IN (SELECT run_id FROM made_again)
), last_change AS (
    SELECT DISTINCT ON (run_id, slot) run_id, type, slot
    FROM (
        SELECT run_id, seq, type, agentv.as_json(line) -> 'slot' AS slot
        FROM agentv.events WHERE type IN ('case_retired', 'case_returned')
    ) AS changes ORDER BY run_id, slot, seq DESC
)
SELECT results.* FROM agentv.results JOIN counted USING (run_id, seq)
WHERE NOT EXISTS (
    SELECT FROM last_change WHERE type = 'case_retired' AND last_change.run_id = results.run_id
        AND slot ->> 'suite' = suite AND slot ->> 'eval_id' = eval_id AND slot ->> 'target' = target
        AND coalesce((slot ->> 'trial')::numeric, 0) = coalesce(trial, 0)
        AND slot ->> 'prompt' IS NOT DISTINCT FROM prompt
);

-- Whoever may read the results may read those that count.
DO $$
DECLARE
    reader text;
BEGIN
    FOR reader IN
        SELECT CASE grantee WHEN 'PUBLIC' THEN 'PUBLIC' ELSE quote_ident(grantee) END
        FROM information_schema.table_privileges
        WHERE table_schema = 'agentv' AND table_name = 'results' AND privilege_type = 'SELECT'
    LOOP
        EXECUTE 'GRANT SELECT ON agentv.counted_results TO ' || reader;
    END LOOP;
END
$$;
