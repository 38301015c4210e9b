-- Runs: their lines byte for byte, with columns for queries.

CREATE TABLE agentv.runs (
    run_id text PRIMARY KEY,
    record bytea NOT NULL,
    name text,
    created_at timestamptz,
    agentv_version text,
    planned bigint,
    state text NOT NULL DEFAULT 'running',
    pushed_at timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE agentv.events (
    run_id text NOT NULL REFERENCES agentv.runs ON DELETE CASCADE,
    seq bigint NOT NULL,
    line bytea NOT NULL,
    type text,
    time timestamptz,
    PRIMARY KEY (run_id, seq)
);

CREATE TABLE agentv.cases (
    run_id text NOT NULL REFERENCES agentv.runs ON DELETE CASCADE,
    seq bigint NOT NULL,
    line bytea NOT NULL,
    suite text,
    eval_id text,
    case_key text,
    PRIMARY KEY (run_id, seq)
);

CREATE TABLE agentv.answers (
    run_id text NOT NULL REFERENCES agentv.runs ON DELETE CASCADE,
    seq bigint NOT NULL,
    line bytea NOT NULL,
    suite text,
    eval_id text,
    target text,
    trial bigint,
    generation bigint,
    answer_key text,
    kind text,
    cost_usd double precision,
    duration_ms double precision,
    error_kind text,
    time timestamptz,
    PRIMARY KEY (run_id, seq)
);

CREATE TABLE agentv.results (
    run_id text NOT NULL REFERENCES agentv.runs ON DELETE CASCADE,
    seq bigint NOT NULL,
    line bytea NOT NULL,
    suite text,
    eval_id text,
    target text,
    trial bigint,
    generation bigint,
    answer_key text,
    status text,
    verdict text,
    score double precision,
    cost_usd double precision,
    duration_ms double precision,
    error_kind text,
    time timestamptz,
    PRIMARY KEY (run_id, seq)
);

CREATE TABLE agentv.labels (
    run_id text NOT NULL REFERENCES agentv.runs ON DELETE CASCADE,
    seq bigint NOT NULL,
    line bytea NOT NULL,
    suite text,
    eval_id text,
    target text,
    trial bigint,
    answer_key text,
    criterion text,
    annotator text,
    time timestamptz,
    PRIMARY KEY (run_id, seq)
);

CREATE INDEX results_by_case ON agentv.results (eval_id, time);
CREATE INDEX answers_by_key ON agentv.answers (answer_key);
CREATE INDEX runs_by_time ON agentv.runs (created_at);

-- Blobs, once for all runs that have them; in parts, because a bytea holds at most one gigabyte.
CREATE TABLE agentv.blobs (
    sha256 text NOT NULL,
    part integer NOT NULL,
    data bytea NOT NULL,
    PRIMARY KEY (sha256, part)
);

CREATE TABLE agentv.run_blobs (
    run_id text NOT NULL REFERENCES agentv.runs ON DELETE CASCADE,
    sha256 text NOT NULL,
    PRIMARY KEY (run_id, sha256)
);

-- Return a line as jsonb. jsonb cannot hold a NUL character, which an answer may contain: it becomes U+FFFD here; the
-- stored line is not changed.
CREATE FUNCTION agentv.as_json(line bytea) RETURNS jsonb LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS $$
    SELECT regexp_replace(convert_from(line, 'UTF8'), '(?<!\\)((?:\\\\)*)\\u0000', '\1\\ufffd', 'g')::jsonb
$$;
