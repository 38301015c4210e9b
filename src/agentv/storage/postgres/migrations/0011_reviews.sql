-- What people do with a run besides its labels: the queues of reviews, which never change, and changes of failure
-- categories. Everyone may add to them, as to the labels.

CREATE TABLE agentv.reviews (
    run_id text NOT NULL REFERENCES agentv.runs ON DELETE CASCADE,
    name text NOT NULL,
    record bytea NOT NULL,
    PRIMARY KEY (run_id, name)
);

CREATE TABLE agentv.categories (
    run_id text NOT NULL REFERENCES agentv.runs ON DELETE CASCADE,
    seq bigint NOT NULL,
    line bytea NOT NULL,
    type text,
    name text,
    by text,
    time timestamptz,
    PRIMARY KEY (run_id, seq)
);

DO $$
DECLARE
    new_table text;
    given record;
BEGIN
    FOREACH new_table IN ARRAY ARRAY['reviews', 'categories']
    LOOP
        EXECUTE format('ALTER TABLE agentv.%I ENABLE ROW LEVEL SECURITY', new_table);
        EXECUTE format('CREATE POLICY readable ON agentv.%I FOR SELECT USING (true)', new_table);
        EXECUTE format('CREATE POLICY added ON agentv.%I FOR INSERT WITH CHECK (true)', new_table);
        -- Whoever may read and add labels may do so with these: rights on all tables were granted on those of then.
        FOR given IN
            SELECT privilege_type AS privilege, grantee FROM pg_class, aclexplode(relacl)
            WHERE pg_class.oid = 'agentv.labels'::regclass AND grantee <> relowner
                AND privilege_type IN ('SELECT', 'INSERT')
        LOOP
            EXECUTE format('GRANT %s ON agentv.%I TO %s', given.privilege, new_table,
                CASE WHEN given.grantee = 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(given.grantee)) END);
        END LOOP;
    END LOOP;
END
$$;
