"""Ways to damage a run folder: bytes, whole files, values, JSON and YAML. Each draws all that it does.

Every damage takes the folder and a random generator and returns what it did, in words. None of them makes a
folder that would be dangerous to delete: links stay inside.
"""

from __future__ import annotations

import copy
import json
import math
import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from kaput.evidence.schemas import TABLES

Damage = Callable[[Path, Random], str]
_LONG = (0, 1, -1, 2**31 - 1, -(2**31), 2**31, 2**53 + 1, 2**62, 2**63 - 1, -(2**63), -(2**63) + 1)
_TEXT = (
    "",
    "\0",
    "orders",
    "ORDERS",
    "é\N{SNOWMAN}",
    "a" * 40,
    "acked",
    "'; --",
    "../..",
    "\r\n",
    "null",
    "z" * 4000,
)
_ODD: tuple[Any, ...] = (
    None, True, 0, -1, 1.5, math.nan, math.inf, -math.inf, 2**63, -(2**63) - 1, 10**30, 1e308, "", "x", [],
    {}, [None], {"a": None}, "2024-01-01", "\ud800", "\0", [[[]]], "9" * 400, "inf", "1e999",
)  # fmt: skip


def parquets(folder: Path) -> list[Path]:
    """Every Parquet file of the evidence."""
    return sorted(path for path in folder.glob("evidence/*/*.parquet") if path.is_file())


def _some_file(folder: Path, random: Random) -> Path:
    found = parquets(folder)
    documents = [path for path in (folder / "manifest.json", folder / "scenario.yaml") if path.is_file()]
    if documents and (random.random() < 0.15 or not found):  # an earlier damage made a folder of the others
        found = documents
    # Every table as often as the other, whatever its number of files.
    names = sorted({path.parent.name for path in found})
    name = random.choice(names)
    return random.choice([path for path in found if path.parent.name == name])


def flipped(folder: Path, random: Random) -> str:
    """Some bits or bytes of a file, anywhere, in its footer, or next to each other."""
    path = _some_file(folder, random)
    data = bytearray(path.read_bytes())
    if not data:
        return f"{path.name} is empty"
    low = 0
    if random.random() < 0.5 and len(data) > 12:  # the footer: thrift, with counts, types and statistics
        low = max(0, len(data) - 8 - int.from_bytes(data[-8:-4], "little"))
        low = low if low < len(data) else 0
    start = random.randrange(low, len(data))
    places = [start]
    if random.random() < 0.5:
        places += [random.randrange(low, len(data)) for _ in range(random.randint(0, 8))]
    for place in places:
        how = random.randrange(3)
        if how == 0:
            data[place] ^= 1 << random.randrange(8)
        elif how == 1:
            data[place] = random.randrange(256)
        else:
            data[place] = random.choice((0, 0xFF, 0x7F, 0x80))
    path.write_bytes(data)
    return f"bytes {places} of {path.parent.name}/{path.name}"


def cut(folder: Path, random: Random) -> str:
    """A file that lacks its end, its beginning or a piece of its middle, or has more than it had."""
    path = _some_file(folder, random)
    data = path.read_bytes()
    at, more = random.randint(0, len(data)), random.randint(0, 64)
    how = random.choice(("end", "beginning", "middle", "inserted", "behind", "empty", "anything"))
    changed = {
        "end": data[:at],
        "beginning": data[at:],
        "middle": data[:at] + data[at + more :],
        "inserted": data[:at] + random.randbytes(more) + data[at:],
        "behind": data + random.randbytes(more),
        "empty": b"",
        "anything": random.randbytes(len(data)),
    }[how]
    path.write_bytes(changed)
    return f"{how} of {path.parent.name}/{path.name} at {at}"


def misplaced(folder: Path, random: Random) -> str:
    """A file that is a directory, a link to itself, another table's, there twice, or away."""
    path, other = _some_file(folder, random), _some_file(folder, random)
    how = random.choice(
        ("directory", "loop", "swapped", "twice", "away", "table a file", "table a loop", "beside")
    )
    if how == "beside":
        path.with_name(
            random.choice(("x.parquet", ".x.parquet", "_x", "x.arrows", "y.attempts"))
        ).write_bytes(random.choice((b"", b"PAR1", random.randbytes(40), path.read_bytes())))
    elif how == "twice":
        shutil.copy(path, path.with_name(f"again-{path.name}"))
    elif how == "swapped":
        if path != other:
            ours, theirs = path.read_bytes(), other.read_bytes()
            path.write_bytes(theirs)
            other.write_bytes(ours)
    elif how.startswith("table") and path.parent != folder:
        shutil.rmtree(path.parent)
        if how == "table a file":
            path.parent.write_bytes(b"")
        else:
            path.parent.symlink_to(path.parent.name)
    else:
        path.unlink()
        if how == "directory":
            path.mkdir()
        elif how == "loop":
            path.symlink_to(path.name)
    return f"{how}: {path.parent.name}/{path.name} ({other.parent.name}/{other.name})"


def _value(random: Random, kind: pa.DataType) -> Any:
    if pa.types.is_int32(kind):
        return random.choice([n for n in _LONG if -(2**31) <= n < 2**31] + [random.randrange(5)])
    if pa.types.is_int64(kind):
        return random.choice([*_LONG, random.randrange(5), random.randrange(-(2**63), 2**63)])
    if pa.types.is_boolean(kind):
        return random.random() < 0.5
    if pa.types.is_list(kind):
        return [
            _value(random, kind.value_type) if random.random() < 0.8 else None
            for _ in range(random.randint(0, 3))
        ]
    if pa.types.is_map(kind):
        return [(random.choice(_TEXT), random.choice(_TEXT))]
    if pa.types.is_floating(kind):
        return random.choice((0.0, math.nan, math.inf, -1e308))
    return random.choice(_TEXT)


def rewritten(folder: Path, random: Random) -> str:
    """A whole Parquet file with other values, nulls, types, columns or rows than the contract has."""
    found = parquets(folder)
    if not found:
        return "no Parquet file"
    name = random.choice(sorted({path.parent.name for path in found}))
    path = random.choice([path for path in found if path.parent.name == name])
    try:
        table = pq.read_table(path)
        rows = table.to_pylist()
    except (pa.ArrowException, OSError, ValueError):
        return "not readable any more"
    column = random.choice(TABLES[name].schema.names)
    how = random.choice((*_OF_ROWS, "values", "values", "type", "dropped", "renamed", "twice"))
    rows = _other_rows(how, rows, TABLES[name].schema.field(column), random)
    fields = [
        pa.field(each.name, each.type) for each in TABLES[name].schema if each.name in table.schema.names
    ]
    try:
        table = _other_columns(how, pa.Table.from_pylist(rows, schema=pa.schema(fields)), column, random)
    except (pa.ArrowException, ValueError, TypeError):
        return f"{how} of {name}.{column}: no such table"
    options = random.choice(
        ({}, {"write_statistics": False}, {"use_dictionary": False}, {"row_group_size": 2})
    )
    pq.write_table(table, path, **options)
    return f"{how} of {name}.{column} in {path.name} ({options})"


_OF_ROWS = ("values", "nulls", "rows", "none")


def _other_rows(
    how: str, rows: list[dict[str, Any]], column: pa.Field, random: Random
) -> list[dict[str, Any]]:
    if how == "values":
        for row in random.sample(rows, k=min(len(rows), random.randint(1, 3))):
            row[column.name] = _value(random, column.type)
    elif how == "nulls":
        for row in rows if random.random() < 0.4 else rows[:1]:
            row[column.name] = None
    elif how == "rows":
        return [random.choice(rows) for _ in range(random.randint(0, 2 * len(rows)))] if rows else []
    return [] if how == "none" else rows


def _other_columns(how: str, table: pa.Table, column: str, random: Random) -> pa.Table:
    at = table.schema.get_field_index(column)
    if at < 0 or how in _OF_ROWS:
        return table
    if how == "dropped":
        return table.drop_columns([column])
    if how == "renamed":
        return table.rename_columns([f"{name}s" if name == column else name for name in table.column_names])
    if how == "twice":
        return table.append_column(column, table[column])
    plain = (
        pa.int8(),
        pa.uint64(),
        pa.float64(),
        pa.binary(),
        pa.timestamp("ns"),
        pa.null(),
        pa.list_(pa.int64()),
    )
    return table.set_column(at, column, pa.nulls(table.num_rows, random.choice(plain)))


def places(node: Any) -> list[tuple[Any, Any]]:
    """Every (container, key) of a document."""
    entries = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    return [place for key, value in entries for place in [(node, key), *places(value)]]


def _changed(document: Any, random: Random) -> str:
    found = places(document)
    if not found:
        return "nothing to change"
    container, key = random.choice(found)
    how = random.choice(("set", "set", "deleted", "added", "deep", "copied"))
    if how == "set":
        container[key] = random.choice(_ODD)
    elif how == "deleted":
        del container[key]
    elif how == "added" and isinstance(container, dict):
        container[random.choice(("", "x", "config", "groups", "state", "schema"))] = random.choice(_ODD)
    elif how == "deep":
        deep: Any = 1
        for _ in range(random.choice((3, 90))):
            deep = [deep] if random.random() < 0.5 else {"a": deep}
        container[key] = deep
    else:
        container[key] = copy.deepcopy(random.choice([of[at] for of, at in found]))
    return f"{how} at {key!r}"


def manifested(folder: Path, random: Random) -> str:
    """manifest.json with other values, or with text that is hard on a reader."""
    path = folder / "manifest.json"
    try:
        text = path.read_text()
        document = json.loads(text)
    except (OSError, ValueError, RecursionError):
        return "manifest not readable any more"
    if random.random() < 0.25:
        hard = (
            "[" * 100_000, '{"a":' * 100_000, text.replace("7", "9" * 5000), text + text, text[:-3] + ", 1}",
            text.replace('"seed"', '"run_id": 3, "seed"'), text.replace("{", "{{", 1), "null", "[]", '"x"',
            "NaN", text.replace('"history"', '"\\ud800"'), text.replace("sealed", "\\u0000"), "\ufeff" + text,
        )  # fmt: skip
        number = random.randrange(len(hard))
        path.write_text(hard[number])
        return f"hard manifest {number}"
    said = [_changed(document, random) for _ in range(random.randint(1, 2))]
    path.write_text(json.dumps(document))
    return f"manifest: {', '.join(said)}"


def scripted(folder: Path, random: Random) -> str:
    """scenario.yaml with other values, or with text that is hard on a reader."""
    path = folder / "scenario.yaml"
    try:
        if any(mark in (text := path.read_text()) for mark in ("&a", "&t")):
            return "scenario is hard already"
        document = yaml.safe_load(text)
    except (OSError, ValueError, yaml.YAMLError, RecursionError):
        return "scenario not readable any more"
    if random.random() < 0.25:
        laughs = "a0: &a0 [x]\n" + "".join(
            f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 9)
        )
        hard = (
            "[" * 20_000, laughs, "a: &a\n  b: *a\n", "a: !!python/object:os.system x\n", "t: &t\n- *t\n",
            "\t", "? ", "title: 2024-99-99\n", "version: 0o9\n", "title: !!binary x\n", "---\na: 1\n---\n",
            "a: 1e999999999\n",
            "version: 1" + "0" * 5000, path.read_text() + laughs,
            path.read_text().replace("partitions: 2", "partitions: 2000000000"),
            path.read_text().replace("count: 3", "count: 1000000000"),
        )  # fmt: skip
        number = random.randrange(len(hard))
        path.write_text(hard[number])
        return f"hard scenario {number}"
    said = [_changed(document, random) for _ in range(random.randint(1, 2))]
    try:
        path.write_text(yaml.safe_dump(document), encoding="utf-8", errors="surrogatepass")
    except (yaml.YAMLError, ValueError, RecursionError):
        return "no such scenario"
    return f"scenario: {', '.join(said)}"


_DAMAGES: dict[Damage, int] = {flipped: 45, cut: 8, misplaced: 7, rewritten: 22, manifested: 9, scripted: 9}


def damage(folder: Path, random: Random) -> list[str]:
    """One damage, seldom two or three; what was done."""
    ways = random.choices(list(_DAMAGES), list(_DAMAGES.values()), k=random.choice((1, 1, 1, 1, 2, 3)))
    return [way(folder, random) for way in ways]
