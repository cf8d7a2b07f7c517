-- Limits. What a crash of the server may lose is UNLOGGED, which writes no log and waits for no disk: usage
-- of the last minute, running answers, cool-downs. Budgets of a day are logged.

-- `settled`: tokens are added when a request ends, in a transaction that waits for the disk. They have rows of
-- their own, so that beginning requests never wait for ending ones.
CREATE UNLOGGED TABLE gemini_bridge.second (
    subject text NOT NULL,
    start bigint NOT NULL,
    settled boolean NOT NULL,
    requests bigint NOT NULL,
    tokens bigint NOT NULL,
    PRIMARY KEY (subject, start, settled)
) WITH (fillfactor = 70);
-- A running answer counts until its lease ends. Its worker renews the lease.
CREATE UNLOGGED TABLE gemini_bridge.running (
    subject text NOT NULL,
    request text NOT NULL,
    until double precision NOT NULL,
    PRIMARY KEY (subject, request)
) WITH (fillfactor = 70);
CREATE INDEX running_request ON gemini_bridge.running (request);
CREATE UNLOGGED TABLE gemini_bridge.expiring (
    kind text NOT NULL,
    name text NOT NULL,
    until double precision NOT NULL,
    PRIMARY KEY (kind, name)
);
CREATE TABLE gemini_bridge.day (
    subject text NOT NULL,
    day bigint NOT NULL,
    tokens bigint NOT NULL,
    cost double precision NOT NULL,
    PRIMARY KEY (subject, day)
) WITH (fillfactor = 70);
-- The requests whose end is recorded, so that an end which is recorded twice counts once.
CREATE TABLE gemini_bridge.settlement (request text PRIMARY KEY, at double precision NOT NULL);
CREATE INDEX settlement_at ON gemini_bridge.settlement (at);

CREATE TYPE gemini_bridge.spent AS (
    starts bigint[],
    requests bigint[],
    tokens bigint[],
    day_tokens bigint,
    day_cost double precision,
    running bigint,
    requests_in_all bigint,
    tokens_in_all bigint
);

-- The usage of one subject that counts at this moment. Rows of the future do not count: the clock was set back
-- after they were written. bridge/state/rate_window.py has the same numbers: 61 seconds, 86400 seconds.
CREATE FUNCTION gemini_bridge.spent_by(of_subject text, now double precision) RETURNS gemini_bridge.spent
LANGUAGE plpgsql STABLE AS $$
DECLARE
    found gemini_bridge.spent;
BEGIN
    SELECT array_agg(each.start), array_agg(each.requests), array_agg(each.tokens),
           (SELECT tokens FROM gemini_bridge.day WHERE subject = of_subject AND day = floor(now / 86400)::bigint),
           (SELECT cost FROM gemini_bridge.day WHERE subject = of_subject AND day = floor(now / 86400)::bigint),
           (SELECT count(*) FROM gemini_bridge.running
            WHERE subject = of_subject AND until > now AND until <= now + 20),
           coalesce(sum(each.requests), 0), coalesce(sum(each.tokens), 0)
        INTO found
        FROM (
            SELECT start, sum(second.requests)::bigint AS requests, sum(second.tokens)::bigint AS tokens
            FROM gemini_bridge.second
            WHERE subject = of_subject AND start > now - 61 AND start <= now GROUP BY start ORDER BY start
        ) AS each;
    RETURN found;
END $$;

CREATE FUNCTION gemini_bridge.look(subjects text[], given double precision)
RETURNS TABLE (
    booked boolean, now double precision, starts bigint[], requests bigint[], tokens bigint[],
    day_tokens bigint, day_cost double precision, running bigint, requests_in_all bigint, tokens_in_all bigint
) LANGUAGE plpgsql AS $$
DECLARE
    moment double precision := gemini_bridge.moment(given);
BEGIN
    RETURN QUERY
        SELECT false, moment, found.*
        FROM unnest(subjects) WITH ORDINALITY AS each (subject, place),
            LATERAL gemini_bridge.spent_by(each.subject, moment) AS found
        ORDER BY each.place;
END $$;

-- Decides and books one request. `per_minute`, `tokens_minute`, `tokens_day`, `cost_day` and `streams` are the
-- limits of the subjects, in their order; 0: no limit. Returns what look() returns, without this request.
-- Advisory locks in one order make concurrent decisions about a subject wait for each other.
CREATE FUNCTION gemini_bridge.enter(
    request_id text, subjects text[], per_minute bigint[], tokens_minute bigint[], tokens_day bigint[],
    cost_day double precision[], streams bigint[], given double precision
) RETURNS TABLE (
    booked boolean, now double precision, starts bigint[], requests bigint[], tokens bigint[],
    day_tokens bigint, day_cost double precision, running bigint, requests_in_all bigint, tokens_in_all bigint
) LANGUAGE plpgsql SET lock_timeout = '200ms' AS $$
DECLARE
    moment double precision;
    fits boolean := true;
    found gemini_bridge.spent;
    all_found gemini_bridge.spent[] := '{}';
    turn bigint;
    place integer;
BEGIN
    FOR turn IN
        SELECT DISTINCT hashtextextended(each.subject, 41242)
        FROM unnest(subjects, per_minute, streams) AS each (subject, per_minute, streams)
        WHERE each.per_minute > 0 OR each.streams > 0 ORDER BY 1
    LOOP
        PERFORM pg_advisory_xact_lock(turn);
    END LOOP;
    moment := gemini_bridge.moment(given);
    FOR place IN 1 .. cardinality(subjects) LOOP
        found := gemini_bridge.spent_by(subjects[place], moment);
        all_found := all_found || found;
        fits := fits
            AND NOT (per_minute[place] > 0 AND found.requests_in_all >= per_minute[place])
            AND NOT (tokens_minute[place] > 0 AND found.tokens_in_all >= tokens_minute[place])
            AND NOT (tokens_day[place] > 0 AND coalesce(found.day_tokens, 0) >= tokens_day[place])
            AND NOT (cost_day[place] > 0 AND coalesce(found.day_cost, 0) >= cost_day[place])
            AND NOT (streams[place] > 0 AND found.running >= streams[place]);
    END LOOP;
    IF fits THEN
        FOR place IN 1 .. cardinality(subjects) LOOP
            IF per_minute[place] > 0 THEN
                PERFORM gemini_bridge.spend(subjects[place], moment, false, 1, 0);
            END IF;
            IF streams[place] > 0 THEN
                DELETE FROM gemini_bridge.running AS old
                    WHERE old.subject = subjects[place] AND (old.until <= moment OR old.until > moment + 20);
                INSERT INTO gemini_bridge.running (subject, request, until)
                    VALUES (subjects[place], request_id, moment + 10)
                    ON CONFLICT (subject, request) DO UPDATE SET until = excluded.until;
            END IF;
        END LOOP;
    END IF;
    RETURN QUERY SELECT fits, moment, (each).* FROM unnest(all_found) AS each;
END $$;

-- Adds to a second, and deletes the seconds that no longer count, except those that another transaction holds.
CREATE FUNCTION gemini_bridge.spend(
    of_subject text, now double precision, at_the_end boolean, more_requests bigint, more_tokens bigint
) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM gemini_bridge.second WHERE ctid = ANY (ARRAY(
        SELECT ctid FROM gemini_bridge.second
        WHERE subject = of_subject AND settled = at_the_end AND (start <= now - 61 OR start > now)
        FOR UPDATE SKIP LOCKED
    ));
    INSERT INTO gemini_bridge.second AS old (subject, start, settled, requests, tokens)
        VALUES (of_subject, floor(now)::bigint, at_the_end, more_requests, more_tokens)
        ON CONFLICT (subject, start, settled) DO UPDATE SET
            requests = old.requests + excluded.requests, tokens = old.tokens + excluded.tokens;
END $$;

-- Records the end of a request, once. `counting`: subjects with a limit on tokens or cost. `refunded`:
-- subjects that counted a request which the upstream never saw, booked in the second `at_second`. Both are
-- in one order.
CREATE FUNCTION gemini_bridge.leave(
    request_id text, counting text[], used_tokens bigint, used_cost double precision,
    refunded text[], at_second bigint, given double precision
) RETURNS void LANGUAGE plpgsql SET lock_timeout = '200ms' AS $$
DECLARE
    moment double precision := gemini_bridge.moment(given);
    each text;
BEGIN
    DELETE FROM gemini_bridge.running WHERE request = request_id;
    IF cardinality(counting) + cardinality(refunded) = 0 THEN
        RETURN;
    END IF;
    INSERT INTO gemini_bridge.settlement (request, at) VALUES (request_id, moment) ON CONFLICT DO NOTHING;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    FOREACH each IN ARRAY refunded LOOP
        UPDATE gemini_bridge.second SET requests = requests - 1
            WHERE subject = each AND start = at_second AND NOT settled AND requests > 0;
    END LOOP;
    FOREACH each IN ARRAY counting LOOP
        PERFORM gemini_bridge.spend(each, moment, true, 0, used_tokens);
        DELETE FROM gemini_bridge.day WHERE ctid = ANY (ARRAY(
            SELECT ctid FROM gemini_bridge.day
            WHERE subject = each AND day < floor(moment / 86400)::bigint FOR UPDATE SKIP LOCKED
        ));
        INSERT INTO gemini_bridge.day AS old (subject, day, tokens, cost)
            VALUES (each, floor(moment / 86400)::bigint, used_tokens, used_cost)
            ON CONFLICT (subject, day) DO UPDATE SET
                tokens = old.tokens + excluded.tokens, cost = old.cost + excluded.cost;
    END LOOP;
    DELETE FROM gemini_bridge.settlement WHERE request = ANY (ARRAY(
        SELECT request FROM gemini_bridge.settlement
        WHERE at < moment - 86400 ORDER BY at LIMIT 2 FOR UPDATE SKIP LOCKED
    ));
END $$;

-- Renews the leases of the running answers of one worker, and returns the requests that had one.
CREATE FUNCTION gemini_bridge.renew(request_ids text[], given double precision)
RETURNS SETOF text LANGUAGE sql AS $$
    UPDATE gemini_bridge.running SET until = gemini_bridge.moment(given) + 10
        WHERE request = ANY (request_ids) RETURNING request
$$;

-- Makes leases again that are gone, because the server crashed.
CREATE FUNCTION gemini_bridge.restore(subjects text[], request_ids text[], given double precision)
RETURNS void LANGUAGE sql AS $$
    INSERT INTO gemini_bridge.running (subject, request, until)
        SELECT each.subject, each.request, gemini_bridge.moment(given) + 10
        FROM unnest(subjects, request_ids) AS each (subject, request) ORDER BY 1, 2
        ON CONFLICT (subject, request) DO NOTHING
$$;
