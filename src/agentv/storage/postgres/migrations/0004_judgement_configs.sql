-- Configurations of judgements, each stored once: a judgement refers to its configuration by
-- `evaluationConfigSnapshot.configSha256`.

CREATE TABLE agentv.judgement_configs (
    sha256 text PRIMARY KEY,
    config bytea NOT NULL
);
