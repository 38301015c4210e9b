-- An answer whose result is `skipped`, such as one that waits for people, is a first answer as well.
CREATE OR REPLACE VIEW agentv.counted_results AS
WITH made_again AS (
    SELECT DISTINCT run_id FROM agentv.results WHERE generation > 0
), with_answered AS (
    SELECT *, coalesce(generation, 0) AS number, rerun IS NULL AND CASE status
        WHEN 'skipped' THEN coalesce(answer_key, '') <> ''
        WHEN 'error' THEN error_stage = 'evaluator' AND error_kind IS DISTINCT FROM 'target_missing'
        ELSE status IS NOT NULL
    END AS is_answered
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

-- Lines are only added, and only by the user who stored the run, or a member of that role: row security holds for
-- INSERT, UPDATE and DELETE, whatever was granted, of all but the owner of the tables and roles that bypass it. Runs of
-- before have no `stored_by`: every user may continue them. Without a policy for UPDATE, no row of a table is changed;
-- without one for DELETE, its rows are deleted only with their run, as foreign keys bypass row security.

ALTER TABLE agentv.runs ADD COLUMN stored_by text;
ALTER TABLE agentv.runs ALTER COLUMN stored_by SET DEFAULT current_user;

-- The names in the bodies of these functions are looked up once, now: otherwise a user could replace `pg_roles` or
-- `convert_from` by a table or function of the same name (needs PostgreSQL 14).
CREATE FUNCTION agentv.may_write_for(in_role text) RETURNS boolean LANGUAGE sql STABLE
BEGIN ATOMIC
    SELECT in_role IS NULL OR in_role = current_user
        OR EXISTS (SELECT FROM pg_roles WHERE rolname = in_role AND pg_has_role(oid, 'MEMBER'));
END;

CREATE FUNCTION agentv.may_write(in_run_id text) RETURNS boolean LANGUAGE sql STABLE
BEGIN ATOMIC
    SELECT EXISTS (SELECT FROM agentv.runs WHERE run_id = in_run_id AND agentv.may_write_for(stored_by));
END;

CREATE OR REPLACE FUNCTION agentv.as_json(line bytea) RETURNS jsonb LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
BEGIN ATOMIC
    SELECT regexp_replace(convert_from(line, 'UTF8'), '(?<!\\)((?:\\\\)*)\\u0000', '\1\\ufffd', 'g')::jsonb;
END;

DO $$
DECLARE
    name text;
    -- Everyone may label a run. The event of a label has no effect on results, and is one line when it is pulled.
    by_labels CONSTANT text := ' OR (type = ''labelled'' AND agentv.as_json(line) ->> ''type'' = ''labelled'''
        ' AND position(''\x0a''::bytea IN line) = 0)';
    may_add text;
BEGIN
    FOREACH name IN ARRAY ARRAY['runs', 'events', 'cases', 'answers', 'results', 'repeated_results', 'labels',
        'blobs', 'run_blobs', 'judgements', 'judgement_configs']
    LOOP
        may_add := CASE
            WHEN name = 'runs' THEN 'stored_by = current_user'
            WHEN name IN ('cases', 'answers', 'results', 'repeated_results') THEN 'agentv.may_write(run_id)'
            WHEN name = 'events' THEN 'agentv.may_write(run_id)' || by_labels
            ELSE 'true'
        END;
        EXECUTE format('ALTER TABLE agentv.%I ENABLE ROW LEVEL SECURITY', name);
        EXECUTE format('CREATE POLICY readable ON agentv.%I FOR SELECT USING (true)', name);
        EXECUTE format('CREATE POLICY added ON agentv.%I FOR INSERT WITH CHECK (%s)', name, may_add);
    END LOOP;
    FOREACH name IN ARRAY ARRAY['runs', 'blobs', 'run_blobs', 'judgements', 'judgement_configs']
    LOOP
        EXECUTE format('CREATE POLICY deleted ON agentv.%I FOR DELETE USING (true)', name);
    END LOOP;
END
$$;

-- The check of a changed row finds the run as it was: a run keeps its id, and is not given to another user.
CREATE POLICY continued ON agentv.runs FOR UPDATE USING (agentv.may_write_for(stored_by))
    WITH CHECK (agentv.may_write(run_id) AND agentv.may_write_for(stored_by));
