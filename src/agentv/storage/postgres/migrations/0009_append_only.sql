-- Rows are only added, and only by the user who stored the run, or by a member of that role. Row-level security applies
-- to all users except the owner of the tables, whatever rights were granted on them. Earlier runs have no `stored_by`:
-- every user may continue them. Without a policy for UPDATE, no row of a table can be changed.

ALTER TABLE agentv.runs ADD COLUMN stored_by text;
ALTER TABLE agentv.runs ALTER COLUMN stored_by SET DEFAULT current_user;

CREATE FUNCTION agentv.may_write(in_run_id text) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT EXISTS (
        SELECT FROM agentv.runs WHERE run_id = in_run_id AND (
            stored_by IS NULL OR stored_by = current_user
            OR EXISTS (SELECT FROM pg_roles WHERE rolname = stored_by AND pg_has_role(oid, 'MEMBER'))
        )
    )
$$;

DO $$
DECLARE
    name text;
    -- Everyone may label a run. The event of a label has no effect on results.
    by_labels CONSTANT text := ' OR (type = ''labelled'' AND agentv.as_json(line) ->> ''type'' = ''labelled'')';
    may_add text;
BEGIN
    FOREACH name IN ARRAY ARRAY['runs', 'events', 'cases', 'answers', 'results', 'repeated_results', 'labels',
        'blobs', 'run_blobs', 'judgements', 'judgement_configs']
    LOOP
        may_add := CASE
            WHEN name IN ('cases', 'answers', 'results', 'repeated_results') THEN 'agentv.may_write(run_id)'
            WHEN name = 'events' THEN 'agentv.may_write(run_id)' || by_labels
            ELSE 'true'
        END;
        EXECUTE format('ALTER TABLE agentv.%I ENABLE ROW LEVEL SECURITY', name);
        EXECUTE format('CREATE POLICY readable ON agentv.%I FOR SELECT USING (true)', name);
        EXECUTE format('CREATE POLICY added ON agentv.%I FOR INSERT WITH CHECK (%s)', name, may_add);
        EXECUTE format('CREATE POLICY deleted ON agentv.%I FOR DELETE USING (true)', name);
    END LOOP;
END
$$;

CREATE POLICY continued ON agentv.runs FOR UPDATE USING (agentv.may_write(run_id));
