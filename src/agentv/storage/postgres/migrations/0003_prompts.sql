-- The prompt of a result, one of the suite's prompts.

ALTER TABLE agentv.cases ADD COLUMN prompt text;
ALTER TABLE agentv.answers ADD COLUMN prompt text;
ALTER TABLE agentv.results ADD COLUMN prompt text;
ALTER TABLE agentv.labels ADD COLUMN prompt text;
