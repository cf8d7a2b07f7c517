-- The conversation of a request, and its arm if it belongs to an experiment.
ALTER TABLE gemini_bridge.request
    ADD COLUMN conversation text NOT NULL DEFAULT '',
    ADD COLUMN experiment text NOT NULL DEFAULT '',
    ADD COLUMN arm text NOT NULL DEFAULT '',
    ADD COLUMN assignment text NOT NULL DEFAULT '',
    ADD COLUMN streamed bigint NOT NULL DEFAULT 0,
    ADD COLUMN fallbacks bigint NOT NULL DEFAULT 0,
    ADD COLUMN malformed bigint NOT NULL DEFAULT 0;
CREATE INDEX request_experiment ON gemini_bridge.request (experiment, at) WHERE experiment <> '';
