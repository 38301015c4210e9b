-- When a run started by the clock of the server, which decides the order of runs: the clock of a machine may be wrong.
-- No run starts in the future, where it would stay `latest`.

ALTER TABLE agentv.runs ADD COLUMN started_at timestamptz;
UPDATE agentv.runs SET started_at = least(coalesce(created_at, pushed_at), pushed_at);
ALTER TABLE agentv.runs ALTER COLUMN started_at SET DEFAULT now();
ALTER TABLE agentv.runs ALTER COLUMN started_at SET NOT NULL;
CREATE INDEX runs_by_start ON agentv.runs (started_at);
DROP INDEX agentv.runs_by_time;  -- of `created_at`, which decides nothing any more

ALTER POLICY added ON agentv.runs WITH CHECK (stored_by = current_user AND started_at <= now());
ALTER POLICY continued ON agentv.runs
    WITH CHECK (started_at <= now() AND agentv.may_write(run_id) AND agentv.may_write_for(stored_by));
