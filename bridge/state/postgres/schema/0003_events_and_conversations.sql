-- Events of streamed background answers, and conversations. Both must survive a crash of the server.

-- The data is not compressed: that takes longer than a request should wait.
CREATE TABLE gemini_bridge.event_batch (
    owner text NOT NULL,
    answer text NOT NULL,
    first bigint NOT NULL,
    length bigint NOT NULL,
    last boolean NOT NULL,
    kept double precision NOT NULL,
    data bytea NOT NULL,
    PRIMARY KEY (owner, answer, first)
);
ALTER TABLE gemini_bridge.event_batch ALTER COLUMN data SET STORAGE EXTERNAL;

CREATE TABLE gemini_bridge.conversation (
    id text PRIMARY KEY,
    owner text NOT NULL,
    created bigint NOT NULL,
    used double precision NOT NULL,
    metadata bytea NOT NULL
);
-- `id` is bytes, because clients may choose it and put any character into it.
CREATE TABLE gemini_bridge.conversation_item (
    position bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    conversation text NOT NULL REFERENCES gemini_bridge.conversation (id) ON DELETE CASCADE,
    id bytea NOT NULL,
    item bytea NOT NULL,
    UNIQUE (conversation, id)
);
ALTER TABLE gemini_bridge.conversation_item ALTER COLUMN item SET STORAGE EXTERNAL;
