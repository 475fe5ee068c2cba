"""Columns as other programs write them, converted to the types of the contract (schemas.py).

Whole numbers may be any integers, floats without a fraction (pandas' columns with nulls), decimals, or texts
with leading zeros; text may have any encoding; times may be timestamps, ISO 8601, or numbers in a unit that
the column's name or their size tells. A value that cannot be converted is marked; times in several units, and
negative ones, raise EvidenceError. Not here: reading files (foreign.py), which columns a table has.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kaput.core import INT64_MAX
from kaput.errors import EvidenceError
from kaput.evidence.schemas import Column
from kaput.evidence.time_units import (
    ISO,
    NS,
    UnitOfTimes,
    are_s,
    decimal_of,
    is_calendar,
    iso_ns,
    other_unit,
)

Where = Callable[[int], str]  # the place of a row, by its index
NULL_WORDS = ["", "null", "NULL", "NaN", "nan", "None", "NA", "<NA>", "\\N"]
_TRUE, _FALSE = {"true", "True", "TRUE", "1"}, {"false", "False", "FALSE", "0"}
_EXACT = 2**53  # from here on a float cannot represent every integer
_TEXTS = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)


def same_kind(wanted: pa.DataType, actual: pa.DataType) -> bool:
    """Whether two types hold the same values, regardless of text encoding and names of list items."""
    if pa.types.is_string(wanted):
        text = actual.value_type if pa.types.is_dictionary(actual) else actual
        return any(is_text(text) for is_text in _TEXTS)
    if pa.types.is_map(wanted):
        return bool(
            pa.types.is_map(actual)
            and same_kind(wanted.key_type, actual.key_type)
            and same_kind(wanted.item_type, actual.item_type)
        )
    if pa.types.is_list(wanted):
        listed = pa.types.is_list(actual) or pa.types.is_large_list(actual)
        return bool(listed and same_kind(wanted.value_type, actual.value_type))
    return bool(wanted.equals(actual))


@dataclass(frozen=True)
class Converted:
    """A column's values, and the rows whose value cannot be read (null in `values`)."""

    values: pa.Array
    unreadable: np.ndarray[Any, np.dtype[np.bool_]]


def plain(array: pa.Array | pa.ChunkedArray) -> pa.Array:
    """The same values in one chunk, not dictionary-encoded, bytes as text. Raises Arrow's errors."""
    whole = array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
    whole = whole if isinstance(whole, pa.Array) else pa.concat_arrays(whole.chunks)
    if pa.types.is_dictionary(whole.type):
        whole = whole.cast(whole.type.value_type)
    if any(is_text(whole.type) for is_text in (*_TEXTS, pa.types.is_binary, pa.types.is_large_binary)):
        return whole.cast(pa.string())
    return whole


def shown(array: pa.Array, row: int) -> Any:
    """One value, for a message: times as texts, since Python's have no ns and end in the year 9999."""
    kind = array.type
    if not pa.types.is_temporal(kind):
        return array[row].as_py()
    value = array.slice(row, 1).cast(pa.timestamp(kind.unit) if pa.types.is_timestamp(kind) else kind)
    return value.cast(pa.string())[0].as_py()


def converted(array: pa.Array, wanted: pa.DataType) -> Converted:
    """A column that holds no times, as the type `wanted`. Raises Arrow's errors."""
    if pa.types.is_null(array.type):
        return Converted(pa.nulls(len(array), wanted), np.zeros(len(array), np.bool_))
    if pa.types.is_string(wanted) and pa.types.is_nested(array.type):
        return _marked(array, pa.nulls(len(array), wanted))
    if pa.types.is_string(wanted):
        text = array if pa.types.is_string(array.type) else array.cast(pa.string())
        return Converted(text, np.zeros(len(array), np.bool_))
    if pa.types.is_integer(wanted):
        values = _whole(array)
        limits = (-(2**31), 2**31 - 1) if wanted.bit_width == 32 else (-INT64_MAX, INT64_MAX)
        fits = pc.and_(pc.greater_equal(values, limits[0]), pc.less_equal(values, limits[1]))
        return _marked(array, pc.if_else(fits, values, None).cast(wanted))
    of_nested = partial(_nested, wanted)
    read = of_nested if pa.types.is_nested(wanted) else _flag if pa.types.is_boolean(wanted) else _number
    return _marked(array, pa.array([read(value) for value in array.to_pylist()], wanted))


def _marked(array: pa.Array, values: pa.Array) -> Converted:
    """Marks the rows that had a value and have none any more."""
    had = array.is_valid()
    if pa.types.is_string(array.type):
        had = pc.and_(had, pc.invert(pc.is_in(pc.utf8_trim_whitespace(array), pa.array(NULL_WORDS))))
    elif pa.types.is_floating(array.type):
        had = pc.and_(had, pc.invert(pc.fill_null(pc.is_nan(array), False)))
    return Converted(values, np.asarray(pc.and_(had, values.is_null()), dtype=np.bool_))


def _whole(array: pa.Array) -> pa.Array:
    """Whole numbers as int64; null where there is none."""
    kind = array.type
    if pa.types.is_string(kind):
        # `17,0` is a float in a country with decimal commas; `1,000` may be a thousand.
        text = pc.replace_substring_regex(pc.utf8_trim_whitespace(array), r"^\+?(-?[0-9]+)(\.0*|,0)?$", r"\1")
        text = pc.replace_substring_regex(text, r"^(-?)0+([0-9])", r"\1\2")
        fits = pc.match_substring_regex(text, r"^-?[0-9]{1,18}$")
        short = pc.if_else(fits, text, None).cast(pa.int64())
        others = np.flatnonzero(np.asarray(pc.and_(pc.fill_null(pc.invert(fits), False), array.is_valid())))
        if not len(others):
            return short
        # Numbers with 19 digits, and those with an exponent, which programs write for floats.
        numbers: list[int | None] = short.to_pylist()
        for row in others.tolist():
            numbers[row] = _whole_decimal(decimal_of(text[row].as_py()))
        return pa.array(numbers, pa.int64())
    if pa.types.is_integer(kind):
        highest = pa.scalar(INT64_MAX, pa.uint64())
        fits = pc.less_equal(array, highest) if kind == pa.uint64() else array.is_valid()
        return pc.if_else(fits, array, None).cast(pa.int64())
    if pa.types.is_floating(kind):
        array = array.cast(pa.float64())
        fits = pc.and_(pc.equal(pc.trunc(array), array), pc.less_equal(pc.abs(array), _EXACT))
        return pc.if_else(fits, array, None).cast(pa.int64())
    if pa.types.is_decimal(kind):
        return pa.array([_whole_decimal(value) for value in array.to_pylist()], pa.int64())
    return pa.nulls(len(array), pa.int64())


def _whole_decimal(value: Any) -> int | None:
    return int(value) if value is not None and value == int(value) and abs(value) <= INT64_MAX else None


def _number(value: Any) -> float | None:
    try:
        return None if value is None or isinstance(value, bytes | dict | list) else float(value)
    except ValueError:
        return None


def _flag(value: Any) -> bool | None:
    return True if str(value) in _TRUE else False if str(value) in _FALSE else None


def _nested(wanted: pa.DataType, value: Any) -> Any:
    """A list of numbers (`[1, 2]`, `1;2`) or a map (an object, or a list of keys and values)."""
    if isinstance(value, str):
        if value.strip() in NULL_WORDS:
            return None
        try:
            value = json.loads(value)
        except ValueError:
            value = [part for part in re.split(r"[;,\s]+", value.strip()) if part]
    if pa.types.is_map(wanted):
        items = value.items() if isinstance(value, dict) else value
        pairs = [tuple(item.values()) if isinstance(item, dict) else item for item in items or ()]
        valid = value is not None and all(isinstance(pair, tuple) and len(pair) == 2 for pair in pairs)
        return [(str(key), str(each)) for key, each in pairs if each is not None] if valid else None
    if isinstance(value, int | float) and not isinstance(value, bool):
        value = [value]
    try:
        return [int(each) for each in value]
    except (TypeError, ValueError):
        return None


class TimeColumn:
    """The times of one column of a table, whatever file they are in, as ns. `source`: the column's name
    there; `bare`: without a unit, so that the times' size tells it; `read_as`: how they were read, None as
    long as there was none.
    """

    def __init__(self, column: Column, source: str, bare: bool) -> None:
        self._wanted, self.source = column.name.rpartition("_")[2], source
        self._unit = None if bare else source.rpartition("_")[2]
        self._one = UnitOfTimes()
        self.read_as: str | None = None

    @property
    def is_expected(self) -> bool:
        """Whether the times are as the contract says."""
        return self.read_as in (None, self._wanted)

    def read(self, array: pa.Array, where: Where) -> Converted:
        """Times in the contract's unit. Raises EvidenceError for negative ones, and several units."""
        if pa.types.is_null(array.type):
            return Converted(pa.nulls(len(array), pa.int64()), np.zeros(len(array), np.bool_))
        ns = self._ns(array, where)
        if self._wanted == "ms":
            ns = pc.divide(ns, NS["ms"])
        return _marked(array, ns)

    def _ns(self, array: pa.Array, where: Where) -> pa.Array:
        kind = array.type
        if pa.types.is_timestamp(kind):
            self._is_one("timestamps", array, where)
            numbers = array.cast(pa.int64())
            self._check_range(numbers, array, where, NS[kind.unit])
            return pc.multiply(numbers, NS[kind.unit])
        if pa.types.is_string(kind):
            return self._texts(pc.utf8_trim_whitespace(array), where)
        if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
            return self._floats(array.cast(pa.float64()), where)
        return self._scaled(_whole(array), where)

    def _texts(self, text: pa.Array, where: Where) -> pa.Array:
        blank = pc.is_in(text, pa.array(NULL_WORDS))
        text = pc.if_else(blank, None, text)
        whole = pc.fill_null(pc.match_substring_regex(text, r"^[+-]?[0-9]+$"), True)
        if pc.all(whole).as_py():
            return self._scaled(_whole(text), where)
        times: list[int | None] = []
        for row, each in enumerate(text.to_pylist()):
            times.append(None if each is None else self._text(each, row, where))
        known = [time for time in times if time is not None]
        if known and self._unit is not None and self.read_as == self._unit:
            least, scale = min(known), NS[self._unit]
            self._check_name(least / scale, max(known) / scale, where(times.index(least)))
        return pa.array(times, pa.int64())

    def _text(self, text: str, row: int, where: Where) -> int | None:
        if (moment := iso_ns(text)) is not None:
            self._is_one(ISO, text, lambda _: where(row))
            self._check_sign(moment, text, where(row))
            return moment
        value = decimal_of(text)
        if value is None:
            return None
        self._check_sign(value, text, where(row))
        unit = self._unit_for(value, value == int(value) and "." not in text, where(row))
        return int(value * NS[unit])

    def _floats(self, array: pa.Array, where: Where) -> pa.Array:
        """Rounded to what a float of that size holds: us for times in s."""
        known = pc.if_else(pc.is_finite(array), array, None)
        values = np.asarray(known.fill_null(0), np.float64)
        floor = np.floor(values)
        valid = np.asarray(known.is_valid())
        whole = bool((floor == values).all())
        units = self._units(values, valid, where, whole)
        if units is None:
            return pa.nulls(len(array), pa.int64())
        digits = {"s": 6, "ms": 3}.get(units, 0)
        fractions = np.rint((values - floor) * 10**digits) * (NS[units] // 10**digits)
        return pa.array(floor.astype(np.int64) * NS[units] + fractions.astype(np.int64), mask=~valid)

    def _scaled(self, numbers: pa.Array, where: Where) -> pa.Array:
        values = np.asarray(numbers.fill_null(0), np.int64)
        unit = self._units(values, np.asarray(numbers.is_valid()), where, whole=True)
        return numbers if unit is None or unit == "ns" else pc.multiply_checked(numbers, NS[unit])

    def _units(
        self, values: np.ndarray[Any, Any], valid: np.ndarray[Any, Any], where: Where, whole: bool
    ) -> str | None:
        """The unit of all of these. None: there is none among them."""
        rows = np.flatnonzero(valid)
        if not len(rows):
            return None
        some = values[rows]
        least, greatest = int(rows[some.argmin()]), int(rows[some.argmax()])
        self._check_sign(values[least].item(), values[least], where(least))
        self._unit_for(values[rows[0]].item(), whole, where(int(rows[0])))
        for row in (least, greatest):
            unit = self._unit_for(values[row].item(), whole, where(row))
        self._check_name(values[least].item(), values[greatest].item(), where(least))
        if values[greatest].item() * NS[unit] > INT64_MAX:
            raise EvidenceError(f"{where(greatest)}: {self.source} {values[greatest]} is no time in {unit}")
        return unit

    def _unit_for(self, value: Any, whole: bool, place: str) -> str:
        """The unit of one time. Raises EvidenceError if the times before it have another."""
        if self._unit is None:
            fits = self._one.takes(value, whole)
            unit = str(self._one.name)
            if not fits:
                raise self._no_time(value, place) if self.read_as is None else self._mixed(value, place)
        else:
            unit = self._unit
            if self.read_as not in (None, unit):
                raise self._mixed(value, place)
        self.read_as = unit
        return unit

    def _is_one(self, how: str, values: Any, where: Where) -> None:
        if self.read_as not in (None, how):
            raise self._mixed(values if isinstance(values, str) else how, where(0))
        self.read_as = how
        self._one.use(how)  # no number fits any more

    def _no_time(self, value: object, place: str) -> EvidenceError:
        return EvidenceError(f"{place}: {self.source} {value} is no time: it would be after the year 2262")

    def _mixed(self, value: object, place: str) -> EvidenceError:
        return EvidenceError(
            f"{place}: {self.source} {value} is not in {self.read_as}, like the times before it; "
            "a column has one unit"
        )

    def _check_sign(self, value: Any, shown: object, place: str) -> None:
        if value < 0:
            raise EvidenceError(f"{place}: {self.source} {shown} is negative; times count from 1970")

    def _check_range(self, numbers: pa.Array, array: pa.Array, where: Where, scale: int) -> None:
        for bound in pc.min_max(numbers).values():
            if (time := bound.as_py()) is not None and not 0 <= time <= INT64_MAX // scale:
                row = pc.index(numbers, time).as_py()
                self._check_sign(time, shown(array, row), where(row))
                raise self._no_time(shown(array, row), where(row))

    def _check_name(self, least: float, greatest: float, place: str) -> None:
        """Checks that numbers are in the unit that the column's name has."""
        other = None if self._unit is None else other_unit(least, greatest, self._unit)
        if self._unit == "ms" and is_calendar(greatest, "ms") and are_s(least, least):
            other = "s"  # some of them
        if other is not None:
            raise EvidenceError(
                f"{place}: column {self.source!r} has {least}, which is a time in {other}; "
                f"its times must be in {self._unit}"
            )
