"""What the tasks of the ledger's job do: some count row groups, others lay chunks of messages together."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from types import ModuleType
from typing import Any

from kaput.analysis.dense import deliveries, ledger_file, log, memory, messages, sends, suspects
from kaput.analysis.dense.columns import of_row_group, open_parquet
from kaput.analysis.dense.context import Context
from kaput.analysis.dense.homes import END, Key
from kaput.analysis.dense.own_sends import own_sends
from kaput.analysis.dense.sends import EDGE_TIMES, Blob
from kaput.analysis.dense.streams import joined
from kaput.analysis.dense.summary import Summary
from kaput.analysis.dense.work import Unit

_KERNELS: dict[str, ModuleType] = {"sends": sends, "log": log, "deliveries": deliveries}
_SUMMARY = -3  # the source of a blob that is a task's summary
_BLOCK_ROWS = 1 << 18  # so that what is made of them stays in a core's cache
Chunks = dict[Key, dict[int, list[Any]]]  # by source: payloads or arrays, and their words


def count(units: Sequence[Unit], number: int, context: Context) -> Iterator[Blob]:
    """One task: its blobs, and at last its summary, which any reducing task may take."""
    memory.keep()
    summary = Summary()
    files: dict[str, Any] = {}
    for unit in units:
        kernel = _KERNELS[unit.table]
        if unit.path not in files:
            files = {unit.path: open_parquet(unit.path, kernel.TEXTS)}
        for columns in of_row_group(files[unit.path], unit, kernel.COLUMNS).blocks(_BLOCK_ROWS):
            yield from kernel.count(columns, context, summary)
    yield Blob(number % context.homes.parts, _SUMMARY, 0, 0, pickle.dumps(summary), [])


def lay_part(part: int, blobs: Iterable[Blob], context: Context) -> Summary:
    """The sums of one part's messages, and those that tasks have sent it."""
    memory.keep()
    summary = Summary()
    chunks: Chunks = {}
    for blob in blobs:
        if blob.source == _SUMMARY:
            summary.add(pickle.loads(blob.payload))
        else:
            _put(chunks, (blob.producer, blob.chunk), blob.source, blob.payload, blob.words)
    with ExitStack() as stack:
        file = stack.enter_context(ledger_file.LedgerFile(context, part)) if context.ledger else None
        own = Summary()
        for columns, safe in own_sends(part, context, sends.COLUMNS, sends.TEXTS):
            for who, chunk, told, words in sends.by_chunk(columns, context, own):
                _put(chunks, (who, chunk), sends.SOURCE, told, words)
            _lay(chunks, safe, context, summary, file)
        _lay(chunks, END, context, summary, file)
    # A part's own sends have no other part's between them.
    own.acks = {stream: joined(found, EDGE_TIMES) for stream, found in own.acks.items()}
    summary.add(own)
    return summary


def _put(chunks: Chunks, key: Key, source: int, payload: Any, words: Sequence[str]) -> None:
    chunks.setdefault(key, {}).setdefault(source, []).append((payload, words))


def _lay(
    chunks: Chunks, safe: Key, context: Context, summary: Summary, file: ledger_file.LedgerFile | None
) -> None:
    """Lays the chunks together of which nothing more will come."""
    for key in sorted(key for key in chunks if key < safe):
        laid = messages.lay(*key, chunks.pop(key), context, summary)
        messages.total(laid, summary)
        suspects.gather(laid, key[1], context, summary)
        if file is not None:
            file.add(laid)
