-- The bridges that share this database, and usage that arrives after the database was away.

CREATE TABLE gemini_bridge.bridge_node (
    name text PRIMARY KEY,  -- of the host, and the state folder on it
    seen double precision NOT NULL
) WITH (fillfactor = 70);

-- Records that a bridge is alive, and returns the number of bridges that were alive in the last 30 seconds.
CREATE FUNCTION gemini_bridge.beat(of_name text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    moment double precision := gemini_bridge.moment(NULL);
BEGIN
    DELETE FROM gemini_bridge.bridge_node WHERE name = ANY (ARRAY(
        SELECT name FROM gemini_bridge.bridge_node WHERE seen < moment - 86400 FOR UPDATE SKIP LOCKED
    ));
    INSERT INTO gemini_bridge.bridge_node (name, seen) VALUES (of_name, moment)
        ON CONFLICT (name) DO UPDATE SET seen = excluded.seen;
    RETURN (SELECT count(*) FROM gemini_bridge.bridge_node WHERE seen > moment - 30);
END $$;

-- Adds the usage of requests that ended while the database was away, to the days in which they ended. Each
-- request counts once: gemini_bridge.leave() records its end in the same table. `subjects`: of each request,
-- with commas between them. All rows of a call are in the order of their subjects.
CREATE FUNCTION gemini_bridge.book_late(
    request_ids text[], subjects text[], used_tokens bigint[], used_cost double precision[],
    ended double precision[]
) RETURNS void LANGUAGE sql AS $$
    WITH new AS (
        INSERT INTO gemini_bridge.settlement (request, at)
            SELECT request, gemini_bridge.moment(NULL) FROM unnest(request_ids) AS request ORDER BY request
            ON CONFLICT DO NOTHING RETURNING request
    ), late AS (
        SELECT unnest(string_to_array(each.subjects, ',')) AS subject,
            floor(each.ended / 86400)::bigint AS day, each.tokens, each.cost
        FROM unnest(request_ids, subjects, used_tokens, used_cost, ended)
            AS each (request, subjects, tokens, cost, ended)
        WHERE each.request IN (SELECT request FROM new)
    )
    INSERT INTO gemini_bridge.day AS old (subject, day, tokens, cost)
        SELECT subject, day, sum(tokens)::bigint, sum(cost) FROM late GROUP BY 1, 2 ORDER BY 1, 2
        ON CONFLICT (subject, day) DO UPDATE SET
            tokens = old.tokens + excluded.tokens, cost = old.cost + excluded.cost
$$;
