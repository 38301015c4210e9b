-- Criteria judgements (`run_evaluation`): each line byte for byte, with columns for queries.

CREATE TABLE agentv.judgements (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    line bytea NOT NULL,
    time timestamptz,
    agent_id text,
    session_id text,
    overall_score double precision,
    verdict text,
    scored bigint,
    expected bigint,
    run_errors bigint,
    judge_cost_usd double precision
);

CREATE INDEX judgements_by_time ON agentv.judgements (time);
CREATE INDEX judgements_by_agent ON agentv.judgements (agent_id, time);
