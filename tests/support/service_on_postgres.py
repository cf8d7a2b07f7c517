"""A bridge whose database a test takes away for a while."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import requests
from gunicorn_bridge import Bridge
from outages import Outage, SharedDatabase
from scripted_gemini import Reply, ScriptedGemini, sse, text_chunk
from waiting import eventually

from bridge.access.key_format import digest, new_secret
from bridge.settings.limits import Limits
from bridge.state.key_store import NewSecret, Rules
from bridge.state.postgres.database import Database
from bridge.state.postgres.key_store import PostgresKeyStore


@dataclass
class Service:
    """The bridge, its upstream and its database."""

    bridge: Bridge
    gemini: ScriptedGemini
    database: SharedDatabase
    outage: Outage

    def away(self) -> AbstractContextManager[None]:
        return self.outage.begin(self.database)

    def key(self, name: str, **limits: Any) -> str:
        """A new key, which both workers know."""
        secret = new_secret()
        database = Database(self.database.server.url(self.database.name), patience=5.0)
        store = PostgresKeyStore(database, self.bridge.state)
        store.add(name, Rules(limits=Limits(**limits)), NewSecret(digest(secret), secret[-4:]))
        database.close()
        keys = self.count("SELECT count(*) FROM gemini_bridge.key")
        with ThreadPoolExecutor(8) as pool:  # so that each worker gets a request, and reads the keys

            def known() -> bool:
                list(pool.map(self.models, [secret] * 8))
                return len(self.bridge.log_entries(message="keys read", keys=keys)) >= 2

            assert eventually(known)
        return secret

    def models(self, secret: str) -> requests.Response:
        return requests.get(f"{self.bridge.address}/v1/models", headers=bearer(secret), timeout=30)

    def ask(self, secret: str, **fields: Any) -> requests.Response:
        return requests.post(
            f"{self.bridge.address}/v1/responses",
            headers=bearer(secret),
            json={"model": "gemini-test", "input": "Hello", **fields},
            timeout=60,
            stream=bool(fields.get("stream")),
        )

    def metric(self, name: str) -> float:
        page = requests.get(f"{self.bridge.address}/metrics", timeout=30).text
        lines = [line for line in page.splitlines() if line.startswith(f"gemini_bridge_{name} ")]
        return float(lines[0].split()[1])

    def count(self, query: str) -> int:
        """The number that the query finds; 0 if there is no row yet."""
        rows = self.database.run(query)
        return int(rows[0][0]) if rows else 0

    def is_back(self) -> bool:
        """Both workers use the database, and nothing waits."""
        return self.metric("state_database_away") == 0 and self.metric("usage_rows_waiting") == 0


def bearer(secret: str) -> dict[str, str]:
    return {"authorization": f"Bearer {secret}"}


def complete() -> Reply:
    return Reply(sse(text_chunk("Hello", "STOP")))
