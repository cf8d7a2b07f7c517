-- The records of agents' runs, line by line. They must survive a crash of the server: a run continues from them.
CREATE TABLE gemini_bridge.run_line (
    run text NOT NULL,
    number bigint NOT NULL,
    kept double precision NOT NULL,
    line bytea NOT NULL,
    PRIMARY KEY (run, number)
);
