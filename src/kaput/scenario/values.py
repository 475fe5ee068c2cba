"""Formats of values in a scenario file: durations, comparisons, start times.

Not here: targets (targets.py), and the blocks that contain them (model.py). Every error message shows a
valid value.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime
from fractions import Fraction
from typing import Annotated, Any, NamedTuple

from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer, WithJsonSchema

from kaput.scenario.vocabulary import Acks

_DURATION = re.compile(r"(\d{1,12}(?:\.\d{1,6})?)\s*(ms|s|m|min|h|d)?")
UNIT_MS = {"ms": 1, "s": 1000, None: 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
_SHARE = re.compile(r"(\d{1,3}(?:\.\d{1,6})?)\s*%")
CLUSTER_NAME = "[a-z][a-z0-9-]{0,19}"
MIRROR_NAME = f"{CLUSTER_NAME}->{CLUSTER_NAME}"
_RATE = re.compile(r"(\d{1,9}(?:\.\d{1,3})?)\s*(kbit|mbit|gbit)")
_COMPARISON = re.compile(r"(>=|<=|>|<|==)?\s*(\d+(?:\.\d+)?)\s*(%)?")


def parse_duration_ms(value: Any, *, days: int = 7) -> int:
    """Milliseconds of `20s`, `1.5s`, `250ms`, `2m` or a bare number of seconds. Raises ValueError."""
    match = _DURATION.fullmatch(str(value).strip())
    if match is None:
        raise ValueError(f"{value!r} is not a duration; write for example 20s, 250ms or 2m")
    duration_ms = round(float(match[1]) * UNIT_MS[match[2]])
    if duration_ms > days * UNIT_MS["d"]:
        raise ValueError(f"{value!r} is longer than {'a week' if days == 7 else f'{days:,} days'}")
    return duration_ms


def format_duration(ms: int) -> str:
    """The inverse: 250 -> `250ms`, 20000 -> `20s`."""
    return f"{ms // 1000}s" if ms % 1000 == 0 else f"{ms}ms"


def _positive_duration(ms: int) -> int:
    if ms < 1:
        raise ValueError("a duration must be longer than 0")
    return ms


def any_of(forms: list[str]) -> str:
    """`a, b or c`; with one form a question."""
    return f"{forms[0]}?" if len(forms) == 1 else f"{', '.join(forms[:-1])} or {forms[-1]}"


class Bound(NamedTuple):
    """A parsed comparison: `operator` is one of >, >=, <, <=, ==. Exact: a bound is never rounded."""

    operator: str
    number: Fraction
    is_share: bool

    def of(self, total: int) -> Fraction:
        """The bound, in the unit of the figure: of a share, that share of `total`."""
        return self.number * total / 100 if self.is_share else self.number


def parse_comparison(value: Any) -> Bound:
    """`'<=5%'` -> (<=, 5, share); a bare number means exactly that. Raises ValueError."""
    match = _COMPARISON.fullmatch(str(value).strip())
    if match is None:
        raise ValueError(f"{value!r} is not a number or a comparison such as '>0' or '<=5%'")
    return Bound(match[1] or "==", Fraction(match[2]), match[3] is not None)


def _check_comparison(value: Any) -> Any:
    parse_comparison(value)
    return value


def no_share(value: Any) -> Any:
    """A comparison without a percentage, for numbers that are not counts of messages. Raises ValueError."""
    if str(value).strip().endswith("%"):
        raise ValueError(f"{value!r} is a share; write a number, such as '<=12'")
    return value


def share_of(at: str) -> Fraction | None:
    """3/10 for `30%`, exactly; None for anything that is not a share."""
    match = _SHARE.fullmatch(at.strip())
    return Fraction(match[1]) / 100 if match else None


def check_at(value: Any) -> Any:
    """Normalizes a start time: a time or a share; a mapping is left to the model. Raises ValueError."""
    if not isinstance(value, (str, int, float)) or isinstance(value, bool):
        return value
    text = str(value).strip()
    if text.endswith("%"):
        share = share_of(text)
        if share is None or share > 1:
            raise ValueError(f"{value!r} is not a share from 0% to 100%")
        return text
    try:
        return format_duration(parse_duration_ms(text))
    except ValueError:
        raise ValueError(
            f"{value!r} is not a moment; write a time (10s), a share (30%), {{message: 30000}} "
            "or {event: election}"
        ) from None


def _check_bandwidth(value: Any) -> str:
    match = _RATE.fullmatch(str(value).strip().lower())
    if match is None or float(match[1]) == 0:
        raise ValueError(f"{value!r} is not a bandwidth; write for example 12mbit or 500kbit")
    return f"{match[1]}{match[2]}"


def no_bool(value: Any) -> Any:
    """Rejects booleans where a number is required. Raises ValueError."""
    # pydantic reads true as 1, and YAML reads yes as true.
    if isinstance(value, bool):
        raise ValueError(f"{str(value).lower()} is not a number")
    return value


def without_group_names(pattern: re.Pattern[str]) -> str:
    """A regular expression without named groups, for JSON Schema."""
    return re.sub(r"[?]P<[a-z]+>", "", pattern.pattern)


DurationMs = Annotated[
    int,
    BeforeValidator(parse_duration_ms),
    AfterValidator(_positive_duration),
    PlainSerializer(format_duration),
    WithJsonSchema({"type": ["string", "number"], "examples": ["20s", "250ms", "2m"]}),
]
DurationOrZeroMs = Annotated[
    int,
    BeforeValidator(parse_duration_ms),
    PlainSerializer(format_duration),
    WithJsonSchema({"type": ["string", "number"], "examples": ["50ms", 0]}),
]
BEGINNING, END = "beginning", "end"
_WORDS = {"earliest": BEGINNING, "start": BEGINNING, "begin": BEGINNING, "latest": END}
_AGO = re.compile(r"(.+?)\s*ago")


def _check_position(value: Any) -> Any:
    """Normalizes a place in logs. Raises ValueError."""
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    text = value.isoformat() if isinstance(value, date) else str(value).strip()
    if text.isdecimal() and not isinstance(value, bool):
        return int(text)
    if (word := text.lower()) in (BEGINNING, END, *_WORDS):
        return _WORDS.get(word, word)
    if ago := _AGO.fullmatch(text):
        return f"{format_duration(_positive_duration(parse_duration_ms(ago[1], days=_OFFSET_DAYS)))} ago"
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(
            f"{value!r} is no offset and no time; write end, beginning, 1200, 10s ago or 2026-01-31T08:30:00Z"
        ) from None
    # Without a zone it is UTC, like every other time of a run.
    at = at if at.tzinfo else at.replace(tzinfo=UTC)
    if at.timestamp() < 0:  # for Kafka a negative time is a word: -1 is the end
        raise ValueError(f"{value!r} is before 1970; write beginning")
    return at.isoformat()


def position_ms(position: str, now_ms: int) -> int | None:
    """The time that a position is about, in ms since the epoch; None if it is no time."""
    if ago := _AGO.fullmatch(position):
        return max(0, now_ms - parse_duration_ms(ago[1], days=_OFFSET_DAYS))
    if position in (BEGINNING, END):
        return None
    return int(datetime.fromisoformat(position).timestamp() * 1000)


class Goal(NamedTuple):
    """Where a group goes in each partition: by so many records (back where negative), or to an offset, a word
    or a time; without any of them to the beginning.
    """

    by: int | None = None
    to: int | str | None = None
    time_ms: int | None = None

    def offset(self, at: int, low: int, high: int, timed: int | None = None) -> int:
        """Its offset in a log from `low` to `high`, from the position `at`. `timed`: the first offset from
        its time on; negative: there is none.
        """
        wanted = low if self.to != END else high
        if self.by is not None:
            wanted = at + self.by
        elif timed is not None:
            wanted = timed if timed >= 0 else high
        elif isinstance(self.to, int):
            wanted = self.to
        return max(low, min(wanted, high))


# Where a group goes: an offset, or a word or time for one.
Position = Annotated[
    int | str,
    BeforeValidator(_check_position),
    WithJsonSchema({"type": ["string", "integer"], "examples": ["end", 1200, "10s ago"]}),
]
_OFFSET_DAYS = 36_500  # of timestamps: 0 is 1970, as when seconds are written as milliseconds
_MIN_OFFSET_MS = 5000  # of a clock: less cannot be distinguished from a slow probe


def _parse_offset_ms(value: Any) -> int:
    """Parses a duration, which may have a minus sign. Raises ValueError."""
    text = str(value).strip()
    ms = parse_duration_ms(text.removeprefix("-"), days=_OFFSET_DAYS) if not isinstance(value, bool) else 0
    if ms < _MIN_OFFSET_MS:
        raise ValueError(
            f"{value!r} is not an offset of {format_duration(_MIN_OFFSET_MS)} or more, such as 5m"
        )
    return -ms if text.startswith("-") else ms


OffsetMs = Annotated[
    int,
    BeforeValidator(_parse_offset_ms),
    PlainSerializer(lambda ms: ("-" if ms < 0 else "") + format_duration(abs(ms)), return_type=str),
    WithJsonSchema({"type": ["string", "number"], "examples": ["5m", "-30s"]}),
]
Bandwidth = Annotated[
    str,
    BeforeValidator(_check_bandwidth),
    WithJsonSchema({"type": "string", "examples": ["12mbit", "500kbit", "1gbit"]}),
]
Comparison = Annotated[
    int | float | str,
    BeforeValidator(_check_comparison),
    WithJsonSchema({"type": ["string", "number"], "examples": [0, ">0", "<=5%"]}),
]
Acknowledgements = Annotated[
    Acks,
    BeforeValidator(lambda v: "all" if str(v) == "-1" else v if isinstance(v, bool) else str(v)),
    WithJsonSchema({"enum": [0, 1, "0", "1", "all", -1]}),
]
Config = dict[str, bool | int | float | str]
_SET_BY_KAPUT = (
    "advertised.listeners", "broker.id", "controller.listener.names", "controller.quorum.bootstrap.servers",
    "controller.quorum.voters", "listeners", "log.dir", "log.dirs", "metadata.log.dir", "node.id",
    "process.roles", "zookeeper.connect",
)  # fmt: skip


def _check_broker_config(config: Config) -> Config:
    if taken := [name for name in _SET_BY_KAPUT if name in config]:
        raise ValueError(
            f"kaput sets {', '.join(taken)} itself, to a different value on each node; leave it out"
        )
    return config


BrokerConfig = Annotated[Config, AfterValidator(_check_broker_config)]
# Each becomes a line of server.properties.
RackName = Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]+$")]
Positive = Annotated[int, Field(ge=1), BeforeValidator(no_bool)]
# The number of brokers, partitions or processes.
Count = Annotated[int, Field(ge=1, le=1_000_000), BeforeValidator(no_bool)]
Percent = Annotated[float, Field(gt=0, le=100, allow_inf_nan=False), BeforeValidator(no_bool)]
Rate = Annotated[float, Field(gt=0, allow_inf_nan=False), BeforeValidator(no_bool)]
