-- Answers of the request cache, and what they would have cost.
ALTER TABLE gemini_bridge.request
    ADD COLUMN from_cache bigint NOT NULL DEFAULT 0,
    ADD COLUMN saved double precision NOT NULL DEFAULT 0;
ALTER TABLE gemini_bridge.usage_day
    ADD COLUMN from_cache bigint NOT NULL DEFAULT 0,
    ADD COLUMN saved double precision NOT NULL DEFAULT 0;

CREATE OR REPLACE FUNCTION gemini_bridge.count_requests() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO gemini_bridge.usage_day AS total
        SELECT (to_timestamp(at) AT TIME ZONE 'UTC')::date AS day, key, protocol, model, count(*),
            count(*) FILTER (WHERE outcome = 'failed'), count(*) FILTER (WHERE outcome = 'client_left'),
            count(*) FILTER (WHERE cost IS NULL),
            sum(input), sum(cached), sum(output), sum(reasoning), coalesce(sum(cost), 0),
            sum(from_cache), sum(saved)
        FROM added GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4
    ON CONFLICT (day, key, protocol, model) DO UPDATE SET
        requests = total.requests + excluded.requests,
        failed = total.failed + excluded.failed,
        client_left = total.client_left + excluded.client_left,
        unpriced = total.unpriced + excluded.unpriced,
        input = total.input + excluded.input,
        cached = total.cached + excluded.cached,
        output = total.output + excluded.output,
        reasoning = total.reasoning + excluded.reasoning,
        cost = total.cost + excluded.cost,
        from_cache = total.from_cache + excluded.from_cache,
        saved = total.saved + excluded.saved;
    RETURN NULL;
END $$;
