"""Files of stored answers that earlier versions wrote."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing

import orjson

from bridge.state.sqlite.answer_store import SqliteAnswerStore

BEFORE = """
CREATE TABLE answer (
    id TEXT PRIMARY KEY, owner TEXT NOT NULL, previous TEXT, kept REAL NOT NULL, touched REAL NOT NULL,
    cancelled INTEGER NOT NULL DEFAULT 0, question BLOB NOT NULL, answer BLOB NOT NULL
) WITHOUT ROWID;
CREATE INDEX answer_kept ON answer (kept);
CREATE TABLE item (id TEXT PRIMARY KEY, answer TEXT NOT NULL) WITHOUT ROWID;
CREATE INDEX item_answer ON item (answer);
CREATE TRIGGER answer_gone AFTER DELETE ON answer BEGIN DELETE FROM item WHERE answer = OLD.id; END;
"""


def answer(number: int, size: int = 0) -> dict:
    return {"id": f"resp_{number}", "output": [], "status": "completed", "padding": "x" * size}


def test_a_file_of_the_previous_version_is_migrated(tmp_path):
    path = tmp_path / "a.sqlite3"
    with closing(sqlite3.connect(path)) as old:
        old.executescript(BEFORE)
        kept = {**answer(1), "output": [{"id": "msg_1", "type": "message"}]}
        row = ("resp_1", "o", None, time.time(), time.time(), 0, b"[]", orjson.dumps(kept))
        old.execute("INSERT INTO answer VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)
        old.execute("INSERT INTO item VALUES ('msg_1', 'resp_1')")
        old.commit()
    workers = [SqliteAnswerStore(path, days=30, megabytes=1) for _ in range(3)]
    for store in workers:
        assert [turn.answer for turn in store.chain("o", "resp_1", [].append)] == [kept]
    assert workers[0].items_beside("o", "msg_1", [].append) == kept["output"]
    workers[1].forget("o", "resp_1")
    assert workers[2].items_beside("o", "msg_1", [].append) == []
    with closing(sqlite3.connect(path)) as now:
        made = dict(now.execute("SELECT name, sql FROM sqlite_master"))
        assert now.execute("SELECT count(*) FROM item").fetchone() == (0,)
    assert "WITHOUT ROWID" not in made["answer"]
    assert {"answer_kept", "answer_gone", "item_answer"} <= set(made)
