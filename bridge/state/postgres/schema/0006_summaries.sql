-- Summaries of conversations, and who is writing one. `text` is bytes, because it may contain any character.
CREATE TABLE gemini_bridge.summary (
    digest bytea PRIMARY KEY,
    owner text NOT NULL,
    state text NOT NULL,
    maker text NOT NULL,
    until double precision NOT NULL,
    failures integer NOT NULL,
    since double precision NOT NULL,
    text bytea NOT NULL
);

-- The secret that seals summaries for clients: one row.
CREATE TABLE gemini_bridge.seal (
    one integer PRIMARY KEY,
    secret bytea NOT NULL
);
