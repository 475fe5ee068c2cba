"""Opens stores by name: `sqlite:kept.db`, `log:DIR`, `mongodb://...`, `opensearch+https://...`, or a path."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

from kaput.clients.keep.store import Store
from kaput.errors import UsageError

FORMS = (
    "sqlite:FILE, log:DIRECTORY, mongodb://HOST/DATABASE.COLLECTION, elasticsearch+http://HOST:PORT/INDEX "
    "or opensearch+http://HOST:PORT/INDEX (or https)"
)
_SQLITE = b"SQLite format 3\0"


def open_store(url: str) -> Store:
    """Opens an existing store. Raises UsageError if it does not exist or the name is invalid."""
    kind, _, path = url.partition(":")
    engine, plus, scheme = kind.partition("+")
    match engine:
        case "sqlite" if not plus:
            return _sqlite(Path(path))
        case "log" if not plus:
            return _log(Path(path))
        case "mongodb":
            from kaput.clients.keep.mongodb import MongoDB

            return MongoDB(url)
        case "elasticsearch" | "opensearch" if scheme in ("http", "https"):
            return _search_engine(engine, url.partition("+")[2])
    return _log(Path(url)) if Path(url).is_dir() else _sqlite(Path(url))


def _sqlite(path: Path) -> Store:
    from kaput.clients.keep.sqlite import SQLite

    try:
        with path.open("rb") as file:
            beginning = file.read(len(_SQLITE))
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}; a store is {FORMS}") from None
    if beginning != _SQLITE:
        raise UsageError(f"{path} is not a SQLite database; a store is {FORMS}")
    return SQLite(path)


def _log(path: Path) -> Store:
    from kaput.clients.keep.failure_log import FailureLog

    if not path.is_dir():
        raise UsageError(f"{path} is not a directory; a store is {FORMS}")
    return FailureLog(path)


def _search_engine(engine: str, url: str) -> Store:
    from kaput.clients.keep.search_engines import Elasticsearch, OpenSearch

    parts = urlsplit(url)
    index = parts.path.strip("/")
    if not index or not parts.hostname:
        raise UsageError(f"{engine}+{parts.scheme}://HOST:PORT/INDEX names a store; the index is missing")
    server = f"{parts.scheme}://{parts.netloc}"
    return Elasticsearch(server, index) if engine == "elasticsearch" else OpenSearch(server, index)
