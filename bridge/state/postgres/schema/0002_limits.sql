-- Limits. What a crash of the server may lose is UNLOGGED, which writes no log and waits for no disk: usage
-- of the last minute, running answers, cool-downs. Budgets of a day are logged.

-- `settled`: tokens are added when a request ends. They have rows of their own, so that beginning requests never
-- wait for ending ones.
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

-- The usage of subjects that counts at this moment. Rows of the future do not count: the clock was set back
-- after they were written. bridge/state/rate_window.py has the same numbers: 61 seconds, 86400 seconds.
-- The planner inlines this function, so each connection plans the query once for all subjects.
CREATE FUNCTION gemini_bridge.spent_by(subjects text[], now double precision)
RETURNS TABLE (place bigint, spent gemini_bridge.spent) LANGUAGE sql STABLE AS $$
    SELECT each.place, ROW(
        minute.starts, minute.requests, minute.tokens, today.tokens, today.cost,
        (SELECT count(*) FROM gemini_bridge.running
            WHERE subject = each.subject AND until > now AND until <= now + 20),
        coalesce(minute.requests_in_all, 0), coalesce(minute.tokens_in_all, 0)
    )::gemini_bridge.spent
    FROM unnest(subjects) WITH ORDINALITY AS each (subject, place)
    LEFT JOIN LATERAL (
        SELECT array_agg(one.start) AS starts, array_agg(one.requests) AS requests,
            array_agg(one.tokens) AS tokens, sum(one.requests)::bigint AS requests_in_all,
            sum(one.tokens)::bigint AS tokens_in_all
        FROM (
            SELECT start, sum(second.requests)::bigint AS requests, sum(second.tokens)::bigint AS tokens
            FROM gemini_bridge.second
            WHERE subject = each.subject AND start > floor(now)::bigint - 61 AND start <= floor(now)::bigint
            GROUP BY start ORDER BY start
        ) AS one
    ) AS minute ON true
    LEFT JOIN gemini_bridge.day AS today
        ON today.subject = each.subject AND today.day = floor(now / 86400)::bigint
$$;

CREATE FUNCTION gemini_bridge.look(subjects text[], given double precision)
RETURNS TABLE (
    booked boolean, now double precision, starts bigint[], requests bigint[], tokens bigint[],
    day_tokens bigint, day_cost double precision, running bigint, requests_in_all bigint, tokens_in_all bigint
) LANGUAGE plpgsql AS $$
DECLARE
    moment double precision := gemini_bridge.moment(given);
BEGIN
    RETURN QUERY
        SELECT false, moment, (each.spent).* FROM gemini_bridge.spent_by(subjects, moment) AS each
        ORDER BY each.place;
END $$;

-- Decides and books one request. `per_minute`, `tokens_minute`, `tokens_day`, `cost_day` and `streams` are the
-- limits of the subjects, in their order; 0: no limit. Returns what look() returns, without this request.
-- Advisory locks in one order make concurrent decisions about a subject wait for each other. Each statement
-- costs time while the locks are held, so one statement serves all subjects; its plan does not depend on the
-- values. A bitmap scan would look at all dead versions of a row again in each request.
-- A request has two subjects at most. The waits for both stay below the quarter of a second after which the bridge
-- takes the server for silent; a request whose wait is over tries again.
CREATE FUNCTION gemini_bridge.enter(
    request_id text, subjects text[], per_minute bigint[], tokens_minute bigint[], tokens_day bigint[],
    cost_day double precision[], streams bigint[], given double precision
) RETURNS TABLE (
    booked boolean, now double precision, starts bigint[], requests bigint[], tokens bigint[],
    day_tokens bigint, day_cost double precision, running bigint, requests_in_all bigint, tokens_in_all bigint
) LANGUAGE plpgsql
SET lock_timeout = '80ms' SET plan_cache_mode = force_generic_plan SET enable_bitmapscan = off AS $$
DECLARE
    moment double precision;
    fits boolean;
    before gemini_bridge.spent[];
BEGIN
    PERFORM pg_advisory_xact_lock(turn.number) FROM (
        SELECT DISTINCT hashtextextended(each.subject, 41242) AS number
        FROM unnest(subjects, per_minute, streams) AS each (subject, per_minute, streams)
        WHERE each.per_minute > 0 OR each.streams > 0 ORDER BY 1
    ) AS turn;
    moment := gemini_bridge.moment(given);
    SELECT array_agg(each.spent ORDER BY each.place), bool_and(
            NOT (per_minute[place] > 0 AND (spent).requests_in_all >= per_minute[place])
            AND NOT (tokens_minute[place] > 0 AND (spent).tokens_in_all >= tokens_minute[place])
            AND NOT (tokens_day[place] > 0 AND coalesce((spent).day_tokens, 0) >= tokens_day[place])
            AND NOT (cost_day[place] > 0 AND coalesce((spent).day_cost, 0) >= cost_day[place])
            AND NOT (streams[place] > 0 AND (spent).running >= streams[place])
        )
        INTO before, fits FROM gemini_bridge.spent_by(subjects, moment) AS each;
    IF fits AND 0 < ANY (per_minute) THEN
        PERFORM gemini_bridge.spend(
            ARRAY(
                SELECT each.subject FROM unnest(subjects, per_minute) AS each (subject, most)
                WHERE each.most > 0
            ), moment, false, 1, 0
        );
    END IF;
    IF fits AND 0 < ANY (streams) THEN
        WITH expired AS (
            DELETE FROM gemini_bridge.running AS old
                WHERE old.subject = ANY (subjects) AND (old.until <= moment OR old.until > moment + 20)
        )
        INSERT INTO gemini_bridge.running (subject, request, until)
            SELECT each.subject, request_id, moment + 10
            FROM unnest(subjects, streams) AS each (subject, most) WHERE each.most > 0
            ON CONFLICT (subject, request) DO UPDATE SET until = excluded.until;
    END IF;
    RETURN QUERY SELECT fits, moment, (each).* FROM unnest(before) AS each;
END $$;

-- Adds to a second of each subject, and deletes the seconds that no longer count, except those that another
-- transaction holds. Both happen in the order of the subjects.
CREATE FUNCTION gemini_bridge.spend(
    subjects text[], now double precision, at_the_end boolean, more_requests bigint, more_tokens bigint
) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    WITH expired AS (
        DELETE FROM gemini_bridge.second WHERE ctid = ANY (ARRAY(
            SELECT ctid FROM gemini_bridge.second
            WHERE subject = ANY (subjects) AND settled = at_the_end
                AND (start <= floor(now)::bigint - 61 OR start > floor(now)::bigint)
            FOR UPDATE SKIP LOCKED
        ))
    )
    INSERT INTO gemini_bridge.second AS old (subject, start, settled, requests, tokens)
        SELECT subject, floor(now)::bigint, at_the_end, more_requests, more_tokens
        FROM unnest(subjects) AS subject ORDER BY subject
        ON CONFLICT (subject, start, settled) DO UPDATE SET
            requests = old.requests + excluded.requests, tokens = old.tokens + excluded.tokens;
END $$;

-- Records the end of a request, once. `counting`: subjects with a limit on tokens or cost. `refunded`:
-- subjects that counted a request which the upstream never saw, booked in the second `at_second`. Both are
-- in one order. It does not wait for the disk: what a crash of the server loses is booked again from the usage
-- row of the request, which the bridge keeps until a later commit that waits.
CREATE FUNCTION gemini_bridge.leave(
    request_id text, counting text[], used_tokens bigint, used_cost double precision,
    refunded text[], at_second bigint, given double precision
) RETURNS void LANGUAGE plpgsql
SET lock_timeout = '200ms' SET plan_cache_mode = force_generic_plan SET enable_bitmapscan = off AS $$
DECLARE
    moment double precision := gemini_bridge.moment(given);
    today bigint := floor(moment / 86400);
    each text;
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
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
    IF cardinality(counting) > 0 THEN
        PERFORM gemini_bridge.spend(counting, moment, true, 0, used_tokens);
        WITH expired AS (
            DELETE FROM gemini_bridge.day WHERE ctid = ANY (ARRAY(
                SELECT ctid FROM gemini_bridge.day
                WHERE subject = ANY (counting) AND day < today FOR UPDATE SKIP LOCKED
            ))
        )
        INSERT INTO gemini_bridge.day AS old (subject, day, tokens, cost)
            SELECT subject, today, used_tokens, used_cost FROM unnest(counting) AS subject ORDER BY subject
            ON CONFLICT (subject, day) DO UPDATE SET
                tokens = old.tokens + excluded.tokens, cost = old.cost + excluded.cost;
    END IF;
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
