-- Everything that must survive a crash of the server. Moments are seconds since 1970, days are days in UTC.

CREATE TABLE gemini_bridge.key (
    id text PRIMARY KEY,
    name text NOT NULL,
    rules text NOT NULL,
    created double precision NOT NULL,
    revoked double precision,
    replaced double precision  -- when an administrator began a new store
);
CREATE UNIQUE INDEX key_name ON gemini_bridge.key (lower(name)) WHERE replaced IS NULL;
CREATE TABLE gemini_bridge.secret (
    digest bytea PRIMARY KEY,
    key text NOT NULL REFERENCES gemini_bridge.key (id),
    hint text NOT NULL,
    created double precision NOT NULL,
    expires double precision
);
CREATE TABLE gemini_bridge.change (one smallint PRIMARY KEY CHECK (one = 1), number bigint NOT NULL);
INSERT INTO gemini_bridge.change VALUES (1, 0);

-- Contents are not compressed: that takes longer than a request should wait.
CREATE TABLE gemini_bridge.answer (
    id text PRIMARY KEY,
    owner text NOT NULL,
    previous text,
    conversation text NOT NULL,
    kept double precision NOT NULL,
    touched double precision NOT NULL,
    cancelled boolean NOT NULL DEFAULT false,
    question bytea NOT NULL,
    answer bytea NOT NULL
);
ALTER TABLE gemini_bridge.answer
    ALTER COLUMN question SET STORAGE EXTERNAL, ALTER COLUMN answer SET STORAGE EXTERNAL;
CREATE INDEX answer_kept ON gemini_bridge.answer (kept);
CREATE TABLE gemini_bridge.item (
    id text PRIMARY KEY,
    answer text NOT NULL REFERENCES gemini_bridge.answer (id) ON DELETE CASCADE
);
CREATE INDEX item_answer ON gemini_bridge.item (answer);

-- Clients choose call ids and may put any character into them, so they are bytes.
CREATE TABLE gemini_bridge.signature (
    owner bytea NOT NULL,
    family bytea NOT NULL,
    call bytea NOT NULL,
    signature bytea NOT NULL,
    kept double precision NOT NULL,
    PRIMARY KEY (owner, family, call)
);
CREATE INDEX signature_kept ON gemini_bridge.signature (kept);

CREATE TABLE gemini_bridge.request (
    id text PRIMARY KEY,  -- so that a row which is written twice counts once
    at double precision NOT NULL,
    key text NOT NULL,
    protocol text NOT NULL,
    client text NOT NULL,
    client_model text NOT NULL,
    model text NOT NULL,
    input bigint NOT NULL,
    cached bigint NOT NULL,
    output bigint NOT NULL,
    reasoning bigint NOT NULL,
    cost double precision,
    seconds double precision NOT NULL,
    first_byte double precision,
    outcome text NOT NULL,
    error text NOT NULL,
    status integer NOT NULL,
    tier text NOT NULL
);
CREATE INDEX request_at ON gemini_bridge.request (at);
CREATE TABLE gemini_bridge.usage_day (
    day date NOT NULL,
    key text NOT NULL,
    protocol text NOT NULL,
    model text NOT NULL,
    requests bigint NOT NULL,
    failed bigint NOT NULL,
    client_left bigint NOT NULL,
    unpriced bigint NOT NULL,
    input bigint NOT NULL,
    cached bigint NOT NULL,
    output bigint NOT NULL,
    reasoning bigint NOT NULL,
    cost double precision NOT NULL,
    PRIMARY KEY (day, key, protocol, model)
);
CREATE TABLE gemini_bridge.refusal (
    day date NOT NULL,
    key text NOT NULL,
    protocol text NOT NULL,
    rule text NOT NULL,
    model text NOT NULL,
    requests bigint NOT NULL,
    PRIMARY KEY (day, key, protocol, rule, model)
);

CREATE FUNCTION gemini_bridge.moment(given double precision) RETURNS double precision
LANGUAGE sql VOLATILE AS $$
    SELECT coalesce(given, extract(epoch FROM clock_timestamp())::double precision)
$$;

-- Adds each batch of rows to the sums of its days, in one order, so that two bridges cannot block each other.
CREATE FUNCTION gemini_bridge.count_requests() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO gemini_bridge.usage_day AS total
        SELECT (to_timestamp(at) AT TIME ZONE 'UTC')::date AS day, key, protocol, model, count(*),
            count(*) FILTER (WHERE outcome = 'failed'), count(*) FILTER (WHERE outcome = 'client_left'),
            count(*) FILTER (WHERE cost IS NULL),
            sum(input), sum(cached), sum(output), sum(reasoning), coalesce(sum(cost), 0)
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
        cost = total.cost + excluded.cost;
    RETURN NULL;
END $$;
CREATE TRIGGER request_counted AFTER INSERT ON gemini_bridge.request
    REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION gemini_bridge.count_requests();
