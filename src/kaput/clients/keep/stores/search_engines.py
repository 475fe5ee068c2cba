"""Elasticsearch and OpenSearch, each with its own client: a document per record, with the record's id.

Confirmed writes are on disk (the engines' default) and do not wait for a refresh; reads refresh first.

Writes and removals have the time in µs as their version. An engine may carry out a write long after its
client gave up; if the record was removed by then, the removal has the greater version, and the engine
refuses that write.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, ClassVar
from urllib.parse import urlsplit

from kaput.clients.keep.store import PAGE, KeptMessage, StoreError, driver, store_errors
from kaput.errors import UsageError, package_with

_TIMEOUT_S = 10
_CONFLICT = 409
_MISSING = 404
# How long the engine remembers a removal, and so refuses writes from before it.
_SETTINGS = {"index": {"gc_deletes": "10m"}}
_TOPICS_MAX = 10_000
_KEYWORD = {"type": "keyword"}
# The fields to search; others are only stored.
_MAPPINGS = {
    "dynamic": False,
    "properties": {
        "id": _KEYWORD, "topic": _KEYWORD, "error": _KEYWORD, "name": _KEYWORD,
        "kept_ms": {"type": "date"}, "timestamp_ms": {"type": "date"},
    },
}  # fmt: skip


class SearchEngine:
    """The common part: both clients accept the same calls."""

    ENGINE: ClassVar[str]

    def __init__(self, name: str, client: Any, index: str, error: type[Exception]) -> None:
        self.name, self._client, self._error = name, client, error
        self._kept, self._notes = index, f"{index}-notes"
        for each in (self._kept, self._notes):
            with self._errors():
                if not client.indices.exists(index=each):
                    client.indices.create(index=each, body={"mappings": _MAPPINGS, "settings": _SETTINGS})

    @classmethod
    def _of_url(cls, url: str) -> tuple[str, str]:
        """The server and the index of a store's URL. Raises UsageError."""
        parts = urlsplit(url.partition("+")[2])
        index = parts.path.strip("/")
        if not index or not parts.hostname:
            scheme = f"{cls.ENGINE}+{parts.scheme}"
            raise UsageError(f"{scheme}://HOST:PORT/INDEX names a store; the index is missing")
        return f"{parts.scheme}://{parts.netloc}", index

    def put(self, records: Sequence[KeptMessage]) -> None:
        """One bulk request; a retry writes the same documents."""
        self._bulk(self._writes(records))

    def _writes(self, records: Sequence[KeptMessage]) -> list[dict[str, Any]]:
        version = _version()
        lines: list[dict[str, Any]] = []
        for record in records:
            lines += [{"index": {"_id": record.id, **version}}, record.model_dump(mode="json")]
        return lines

    def read(self, after: str = "", limit: int = PAGE, topic: str | None = None) -> list[KeptMessage]:
        wanted: list[dict[str, Any]] = [{"range": {"id": {"gt": after}}}]
        if topic is not None:
            wanted.append({"term": {"topic": topic}})
        answer = self._search(
            self._kept, query={"bool": {"filter": wanted}}, sort=[{"id": "asc"}], size=limit
        )
        return [KeptMessage.from_document(hit["_source"], self.name) for hit in answer["hits"]["hits"]]

    def remove(self, ids: Sequence[str], note: str | None = None) -> None:
        """Deletes the note last: until then, a replay removes the records again.

        A record whose version is greater was written by a clock that was ahead: it is removed as well.
        """
        version = _version()
        deletes = [{"delete": {"_id": one, **version}} for one in ids]
        ahead = self._bulk(deletes, also=(_MISSING, _CONFLICT))
        self._bulk([{"delete": {"_id": one}} for one in ahead], also=(_MISSING,))
        if note is not None:
            with self._errors():
                self._client.delete(index=self._notes, id=note, ignore=_MISSING)

    def counts(self) -> dict[str, int]:
        terms = {"topics": {"terms": {"field": "topic", "size": _TOPICS_MAX}}}
        answer = self._search(self._kept, size=0, aggs=terms)
        return {one["key"]: int(one["doc_count"]) for one in answer["aggregations"]["topics"]["buckets"]}

    def note(self, name: str, text: str) -> str:
        with self._errors():
            try:
                self._client.create(index=self._notes, id=name, body={"name": name, "text": text})
            except self._error as error:
                if getattr(error, "status_code", None) != _CONFLICT:
                    raise
            return str(self._client.get(index=self._notes, id=name)["_source"]["text"])

    def notes(self) -> dict[str, str]:
        answer = self._search(self._notes, size=_TOPICS_MAX)
        return {hit["_id"]: hit["_source"]["text"] for hit in answer["hits"]["hits"]}

    def close(self) -> None:
        self._client.close()

    def _search(self, index: str, **body: Any) -> Any:
        with self._errors():
            self._client.indices.refresh(index=index)
            return self._client.search(index=index, body=body)

    def _bulk(self, lines: list[dict[str, Any]], also: tuple[int, ...] = ()) -> list[str]:
        """Returns the ids with conflicts. Raises StoreError if one failed with a status not in `also`."""
        if not lines:
            return []
        with self._errors():
            answer = self._client.bulk(index=self._kept, body=lines, refresh=False)
        results = [result for item in answer["items"] for result in item.values()]
        failed = [one for one in results if one["status"] >= 300 and one["status"] not in also]
        if failed:
            why = failed[0].get("error", {}).get("reason", failed[0]["status"])
            raise StoreError(f"{self.name}: {len(failed)} documents were not written: {why}")
        return [one["_id"] for one in results if one["status"] == _CONFLICT]

    def _errors(self) -> AbstractContextManager[None]:
        return store_errors(self, self._error)


class Elasticsearch(SearchEngine):
    """Records in an index of Elasticsearch; notes in INDEX-notes. Options are passed to its client."""

    ENGINE = "elasticsearch"
    SCHEMES: ClassVar[tuple[str, ...]] = ("elasticsearch+http", "elasticsearch+https")
    FORM: ClassVar[str] = "elasticsearch+http://HOST:PORT/INDEX"

    @classmethod
    def from_url(cls, url: str) -> Elasticsearch:
        return cls(*cls._of_url(url))

    def __init__(self, server: str, index: str = "kaput-keep", **options: Any) -> None:
        client = driver("elasticsearch", package_with("elasticsearch"), "a store in Elasticsearch")
        made = client.Elasticsearch(server, request_timeout=_TIMEOUT_S, **options)
        errors = (client.ApiError, client.TransportError)
        super().__init__(_store_name("elasticsearch", server, index), made, index, errors)  # type: ignore[arg-type]


class OpenSearch(SearchEngine):
    """Records in an index of OpenSearch; notes in INDEX-notes. Options are passed to its client."""

    ENGINE = "opensearch"
    SCHEMES: ClassVar[tuple[str, ...]] = ("opensearch+http", "opensearch+https")
    FORM: ClassVar[str] = "opensearch+http://HOST:PORT/INDEX (or https)"

    @classmethod
    def from_url(cls, url: str) -> OpenSearch:
        return cls(*cls._of_url(url))

    def __init__(self, server: str, index: str = "kaput-keep", **options: Any) -> None:
        client = driver("opensearchpy", package_with("opensearch"), "a store in OpenSearch")
        made = client.OpenSearch(server, timeout=_TIMEOUT_S, **options)
        super().__init__(_store_name("opensearch", server, index), made, index, client.OpenSearchException)


def _version() -> dict[str, Any]:
    """The version of what is done now; what has the same one may be done again."""
    return {"version": time.time_ns() // 1000, "version_type": "external_gte"}


def _store_name(engine: str, server: str, index: str) -> str:
    """The store's name, without a user and password in the server's address."""
    scheme, _, rest = server.partition("://")
    return f"{engine}+{scheme}://{rest.rpartition('@')[2].rstrip('/')}/{index}"
