"""MongoDB: a document for each record, written with `w: majority` and journaled; needs pymongo."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, ClassVar

from kaput.clients.keep.store import PAGE, KeptMessage, driver, store_errors
from kaput.errors import UsageError, package_with

_TIMEOUT_MS = 10_000


class MongoDB:
    """Records in a collection, `DATABASE.COLLECTION` in the URI's path; notes in COLLECTION_notes."""

    SCHEMES: ClassVar[tuple[str, ...]] = ("mongodb",)
    FORM: ClassVar[str] = "mongodb://HOST/DATABASE.COLLECTION"

    @classmethod
    def from_url(cls, url: str) -> MongoDB:
        return cls(url)

    def __init__(self, uri: str) -> None:
        pymongo = driver("pymongo", package_with("mongodb"), "a store in MongoDB")
        self._error, self._bulk_error = pymongo.errors.PyMongoError, pymongo.errors.BulkWriteError
        self._replace = pymongo.ReplaceOne
        self.name = "mongodb"
        with self._errors():
            parsed = pymongo.uri_parser.parse_uri(uri)
            database, collection = parsed["database"], parsed["collection"] or "kaput_keep"
            if not database:
                raise UsageError(
                    "mongodb://HOST:PORT/DATABASE.COLLECTION names a store; the database is missing"
                )
            host, port = parsed["nodelist"][0]
            self.name = f"mongodb://{host}:{port}/{database}.{collection}"
            self._client = pymongo.MongoClient(
                uri, w="majority", journal=True, serverSelectionTimeoutMS=_TIMEOUT_MS,
                socketTimeoutMS=_TIMEOUT_MS, wTimeoutMS=_TIMEOUT_MS,
            )  # fmt: skip
            self._kept = self._client[database][collection]
            self._notes = self._client[database][f"{collection}_notes"]

    def put(self, records: Sequence[KeptMessage]) -> None:
        """One bulk insert; existing documents that differ are then replaced, which is slower."""
        if records:
            with self._errors():
                documents = [_document(record) for record in records]
                try:
                    self._kept.insert_many(documents, ordered=False)
                except self._bulk_error:
                    there = {d["_id"]: d for d in self._kept.find({"_id": {"$in": [r.id for r in records]}})}
                    if new := [d for d in documents if d != there.get(d["_id"])]:
                        self._kept.bulk_write([self._replace({"_id": d["_id"]}, d, upsert=True) for d in new])

    def read(self, after: str = "", limit: int = PAGE, topic: str | None = None) -> list[KeptMessage]:
        wanted = {"_id": {"$gt": after}, **({"topic": topic} if topic is not None else {})}
        with self._errors():
            documents: list[dict[str, Any]] = list(self._kept.find(wanted).sort("_id", 1).limit(limit))
        return [_record(document, self.name) for document in documents]

    def remove(self, ids: Sequence[str], note: str | None = None) -> None:
        """Deletes the note last: until then, a replay removes the records again."""
        with self._errors():
            if ids:
                self._kept.delete_many({"_id": {"$in": list(ids)}})
            if note is not None:
                self._notes.delete_one({"_id": note})

    def counts(self) -> dict[str, int]:
        with self._errors():
            groups = self._kept.aggregate([{"$group": {"_id": "$topic", "count": {"$sum": 1}}}])
            return {group["_id"]: int(group["count"]) for group in groups}

    def note(self, name: str, text: str) -> str:
        with self._errors():
            self._notes.update_one({"_id": name}, {"$setOnInsert": {"text": text}}, upsert=True)
            return str(self._notes.find_one({"_id": name})["text"])

    def notes(self) -> dict[str, str]:
        with self._errors():
            return {note["_id"]: note["text"] for note in self._notes.find()}

    def close(self) -> None:
        self._client.close()

    def _errors(self) -> AbstractContextManager[None]:
        return store_errors(self, self._error)


def _document(record: KeptMessage) -> dict[str, Any]:
    """The record with its id as _id, and headers as documents: not every server supports nested arrays."""
    document = record.model_dump(mode="json", exclude={"id"})
    headers = [{"name": name, "value": value} for name, value in document["headers"]]
    return {"_id": record.id, **document, "headers": headers}


def _record(document: dict[str, Any], where: str) -> KeptMessage:
    headers = [(header["name"], header["value"]) for header in document["headers"]]
    return KeptMessage.from_document({"id": document.pop("_id"), **document, "headers": headers}, where)
