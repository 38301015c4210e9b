-- Lines of results.jsonl whose result `results` has already, as when a retry appended it again: the pulled file needs them.

CREATE TABLE agentv.repeated_results (
    run_id text NOT NULL REFERENCES agentv.runs ON DELETE CASCADE,
    seq bigint NOT NULL,
    line bytea NOT NULL,
    PRIMARY KEY (run_id, seq)
);
