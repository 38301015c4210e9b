-- Configurations of judgements, each once: `evaluationConfigSnapshot.configSha256` of a judgement names its own.

CREATE TABLE agentv.judgement_configs (
    sha256 text PRIMARY KEY,
    config bytea NOT NULL
);
