-- Recordings of single requests, the rules that say what to record, and who looked at recordings.
CREATE TABLE gemini_bridge.flight (
    id text PRIMARY KEY,
    at double precision NOT NULL,
    request text NOT NULL,
    key text NOT NULL,
    client text NOT NULL,
    conversation text NOT NULL,
    protocol text NOT NULL,
    model text NOT NULL,
    status bigint NOT NULL,
    outcome text NOT NULL,
    error text NOT NULL,
    level text NOT NULL,
    reason text NOT NULL,
    node text NOT NULL,
    bytes bigint NOT NULL,
    data bytea NOT NULL
);
CREATE INDEX flight_at ON gemini_bridge.flight (at);
CREATE INDEX flight_request ON gemini_bridge.flight (request, at);
CREATE INDEX flight_conversation ON gemini_bridge.flight (conversation, at);

CREATE TABLE gemini_bridge.flight_rule (
    id text PRIMARY KEY,
    made double precision NOT NULL,
    ends double precision NOT NULL,
    key text,
    session text,
    model text,
    header boolean NOT NULL,
    level text NOT NULL,
    author text NOT NULL
);

CREATE TABLE gemini_bridge.flight_look (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at double precision NOT NULL,
    author text NOT NULL,
    command text NOT NULL,
    flight text NOT NULL
);
