-- Quotas and budgets that several processes share. `agentv.execution.quotas` explains the rules and applies them within
-- a process; here they are a function, so that the account is locked for no longer than one statement.

CREATE TABLE agentv.quota_accounts (
    account text PRIMARY KEY,
    filled_from timestamptz NOT NULL DEFAULT '-infinity',
    held_until timestamptz NOT NULL DEFAULT '-infinity'
);

CREATE TABLE agentv.quota_leases (
    account text NOT NULL,
    lease text NOT NULL,
    holder text NOT NULL,
    requests bigint NOT NULL,
    tokens double precision NOT NULL,
    usd double precision NOT NULL,
    granted_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL,
    PRIMARY KEY (account, lease)
);

-- The clock of all leases: the clock of the server.
CREATE FUNCTION agentv.quota_now() RETURNS timestamptz LANGUAGE sql VOLATILE AS $$ SELECT clock_timestamp() $$;

-- Record what was used (`uses`: an array of {lease, requests, tokens, usd, is_over}), and grant a lease, unless `least`
-- is empty. A null limit means no limit. `wait_s` is null if waiting does not help.
CREATE FUNCTION agentv.quota_exchange(
    in_account text, in_holder text, in_lease text,
    limit_requests bigint, limit_tokens double precision, limit_usd double precision,
    least_requests bigint, least_tokens double precision, least_usd double precision,
    wanted_requests bigint, wanted_tokens double precision, wanted_usd double precision,
    uses jsonb, hold_s double precision, lease_s double precision, share_of_block double precision,
    OUT requests bigint, OUT tokens double precision, OUT usd double precision,
    OUT wait_s double precision, OUT spent_usd double precision
) LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    rounding CONSTANT double precision := 1e-9;
    minute CONSTANT interval := interval '60 seconds';
    current timestamptz;
    found_account agentv.quota_accounts;
    known agentv.quota_leases;
    used record;
    spacing interval;
    burst interval;
    filled timestamptz;
    counted record;
    free_requests bigint := 1 << 30;
    free_tokens double precision := 'infinity';
    free_usd double precision := 'infinity';
    share double precision;
    wait double precision;
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended('agentv quota ' || in_account, 0));
    current := agentv.quota_now();
    INSERT INTO agentv.quota_accounts (account) VALUES (in_account) ON CONFLICT DO NOTHING;
    SELECT * INTO found_account FROM agentv.quota_accounts WHERE account = in_account;
    -- Leases with spent money are never deleted.
    DELETE FROM agentv.quota_leases AS old
        WHERE old.account = in_account AND old.usd = 0 AND old.expires_at + minute <= current;
    spacing := minute / limit_requests;
    burst := greatest(spacing, interval '2 seconds');
    filled := found_account.filled_from;

    FOR used IN
        SELECT * FROM jsonb_to_recordset(uses)
            AS each(lease text, requests bigint, tokens double precision, usd double precision, is_over boolean)
    LOOP
        SELECT * INTO known FROM agentv.quota_leases AS old WHERE old.account = in_account AND old.lease = used.lease;
        IF NOT FOUND THEN
            CONTINUE WHEN used.requests = 0 AND used.tokens = 0 AND used.usd = 0;
            INSERT INTO agentv.quota_leases VALUES (
                in_account, used.lease, in_holder, used.requests, used.tokens, used.usd, current,
                current + CASE WHEN used.is_over THEN 0 ELSE lease_s END * interval '1 second'
            );
            CONTINUE;
        END IF;
        IF limit_requests IS NOT NULL AND isfinite(filled) THEN
            filled := filled + (used.requests - known.requests) * spacing;
        END IF;
        UPDATE agentv.quota_leases AS old SET
            requests = used.requests, tokens = used.tokens, usd = used.usd,
            expires_at = CASE
                WHEN used.is_over THEN least(old.expires_at, current) ELSE current + lease_s * interval '1 second'
            END
            WHERE old.account = in_account AND old.lease = used.lease;
    END LOOP;

    IF hold_s > 0 THEN
        found_account.held_until := greatest(found_account.held_until, current + hold_s * interval '1 second');
    END IF;
    SELECT
        coalesce(sum(each.requests) FILTER (WHERE each.expires_at + minute > current), 0) AS requests,
        coalesce(sum(each.tokens) FILTER (WHERE each.expires_at + minute > current), 0) AS tokens,
        coalesce(sum(each.usd), 0) AS usd,
        min(each.expires_at) FILTER (WHERE each.expires_at + minute > current) + minute AS next_end,
        coalesce(bool_or(each.usd > 0 AND each.expires_at > current AND each.lease <> in_lease), false) AS may_return
        INTO counted FROM agentv.quota_leases AS each WHERE each.account = in_account;
    requests := 0;
    tokens := 0;
    usd := 0;
    wait_s := 0;
    spent_usd := counted.usd;

    IF least_requests > 0 OR least_tokens > 0 OR least_usd > 0 THEN
        IF limit_requests IS NOT NULL THEN
            filled := greatest(filled, current - burst);
            free_requests := least(
                limit_requests - counted.requests,
                floor(extract(epoch FROM current - filled) / extract(epoch FROM spacing) + rounding)
            );
        END IF;
        IF limit_tokens IS NOT NULL THEN
            free_tokens := limit_tokens - counted.tokens;
        END IF;
        IF limit_usd IS NOT NULL THEN
            free_usd := limit_usd - counted.usd;
        END IF;
        IF found_account.held_until <= current AND least_requests <= free_requests
            AND least_tokens <= free_tokens + rounding AND least_usd <= free_usd + rounding
        THEN
            requests := greatest(least_requests, least(wanted_requests, free_requests));
            tokens := greatest(least_tokens, least(wanted_tokens, free_tokens));
            usd := greatest(least_usd, least(wanted_usd, free_usd));
            spent_usd := counted.usd + usd;
            IF limit_requests IS NOT NULL THEN
                filled := filled + requests * spacing;
            END IF;
            INSERT INTO agentv.quota_leases AS old VALUES (
                in_account, in_lease, in_holder, requests, tokens, usd, current, current + lease_s * interval '1 second'
            ) ON CONFLICT (account, lease) DO UPDATE SET
                requests = old.requests + excluded.requests, tokens = old.tokens + excluded.tokens,
                usd = old.usd + excluded.usd, expires_at = excluded.expires_at;
        ELSE
            wait := greatest(0.001, CASE WHEN found_account.held_until > current
                THEN extract(epoch FROM found_account.held_until - current) ELSE 0 END);
            IF limit_requests IS NOT NULL AND least_requests > 0 THEN
                share := greatest(
                    least_requests,
                    least(wanted_requests, greatest(1, least(100, limit_requests / 30))) / share_of_block
                );
                wait := greatest(wait, extract(epoch FROM filled + share * spacing - current));
            END IF;
            IF limit_requests - counted.requests < least_requests OR least_tokens > free_tokens + rounding THEN
                wait := greatest(wait, coalesce(extract(epoch FROM counted.next_end - current), 0));
            END IF;
            IF least_usd > free_usd + rounding THEN
                wait := CASE WHEN counted.may_return THEN greatest(wait, lease_s / share_of_block) END;
            END IF;
            wait_s := wait;
        END IF;
    END IF;
    UPDATE agentv.quota_accounts SET filled_from = filled, held_until = found_account.held_until
        WHERE account = in_account;
END
$$;
