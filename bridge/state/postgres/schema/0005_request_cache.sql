-- The request cache. It may be empty after a crash of the server, so it needs no log.
CREATE UNLOGGED TABLE gemini_bridge.cached_answer (
    scope text NOT NULL,
    digest bytea NOT NULL,
    made double precision NOT NULL,
    ends double precision NOT NULL,
    data bytea NOT NULL,
    PRIMARY KEY (scope, digest)
);
-- The data is compressed already.
ALTER TABLE gemini_bridge.cached_answer ALTER COLUMN data SET STORAGE EXTERNAL;
