"""Reads and writes Java's properties files, and reads the login settings in them, as Kafka's own clients do.

The definitions: `java.util.Properties.load` (javadoc), and for `sasl.jaas.config` Kafka's
`org.apache.kafka.common.security.JaasConfig`, which uses a `java.io.StreamTokenizer`. Not here: what the
settings mean (access.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kaput.core import setting_text
from kaput.errors import UsageError, unreadable

_BOM = b"\xef\xbb\xbf"
_BLANKS = " \t\f"
# The key ends at the first separator that no backslash escapes.
_ENTRY = re.compile(r"((?:[^\\=: \t\f]|\\.)*)[ \t\f]*[=:]?[ \t\f]*(.*)", re.DOTALL)
_ESCAPED = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_BAD_UNICODE = re.compile(r"(?<!\\)(?:\\\\)*\\u(?![0-9a-fA-F]{4})")

# In the order in which StreamTokenizer tries them. A number is no word: Kafka refuses it as a value.
_TOKEN = re.compile(
    r"""(?P<blank>[\x00-\x20]+|/\*.*?(?:\*/|\Z)|/[^\r\n]*)
      | (?P<number>-?(?:[0-9]+\.?[0-9]*|\.[0-9]*))
      | (?P<word>[A-Za-z_$\xa0-\U0010ffff][A-Za-z0-9_$.\-\xa0-\U0010ffff]*)
      | (?P<quoted>"(?:[^"\\\r\n]|\\.)*"?|'(?:[^'\\\r\n]|\\.)*'?)
      | (?P<sign>.)""",
    re.VERBOSE | re.DOTALL,
)
_QUOTED_ESCAPE = re.compile(r"\\([0-3]?[0-7]{1,2}|.)", re.DOTALL)
_QUOTED_ESCAPES = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_FLAGS = ("required", "requisite", "sufficient", "optional")


@dataclass(frozen=True)
class Property:
    """A value and the line of the file, from 1, on which its setting begins."""

    value: str
    line: int


def read_settings(path: Path) -> dict[str, Property]:
    """Reads a properties file; the last of several settings with one name wins. Text is ISO 8859-1, as in
    Java, or UTF-8 if the file begins with a byte order mark. Raises UsageError naming the file, and the line
    if possible.
    """
    try:
        data = path.read_bytes()
        text = data[len(_BOM) :].decode("utf-8") if data.startswith(_BOM) else data.decode("iso-8859-1")
    except (OSError, UnicodeDecodeError) as error:
        raise unreadable(path, error) from None
    settings = {}
    for number, line in _logical_lines(text):
        if _BAD_UNICODE.search(line):
            raise UsageError(f"{path}:{number}: \\u needs four hexadecimal digits after it")
        entry = _ENTRY.match(line)
        assert entry is not None  # each of its parts may be empty
        settings[_unescaped(entry[1])] = Property(_unescaped(entry[2]), number)
    return settings


def refuse_other_format(path: Path, settings: Mapping[str, Property]) -> None:
    """Raises UsageError for JSON, XML, or a file with sections, which Java would read as settings."""
    first = next(iter(settings.items()), None)
    if first is not None and first[0][:1] in {"{", "[", "<", '"'}:
        name, at = first[0], f"{path}:{first[1].line}"
        raise UsageError(f"{at}: {name!r} is no setting; properties are lines of NAME=VALUE")


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """The lines that are settings, continued ones joined; each with the number of its first line."""
    lines = enumerate(re.split(r"\r\n|\r|\n", text), 1)
    for number, line in lines:
        logical = line.lstrip(_BLANKS)
        if logical in ("", "\\") or logical[0] in "#!":
            continue  # a comment that ends in a backslash is not continued
        while (len(logical) - len(logical.rstrip("\\"))) % 2 == 1:
            logical = logical[:-1] + next(lines, (0, ""))[1].lstrip(_BLANKS)
        yield number, logical


def properties_text(settings: Mapping[str, Any]) -> str:
    """The text of a properties file, all ASCII."""
    pairs = ((_escaped(key, "=: "), _escaped(setting_text(value), "")) for key, value in settings.items())
    return "".join(f"{key}={value}\n" for key, value in pairs)


def _escaped(text: str, more: str) -> str:
    """Printable ASCII as it is, everything else as UTF-16 escapes."""
    escaped = ""
    for at, char in enumerate(text):
        if char == "\\" or char in more or (at == 0 and char in " #!"):
            escaped += f"\\{char}"
        elif " " <= char <= "~":
            escaped += char
        else:
            units = char.encode("utf-16-be", "surrogatepass")
            escaped += "".join(f"\\u{units[i]:02x}{units[i + 1]:02x}" for i in range(0, len(units), 2))
    return escaped


def _unescaped(text: str) -> str:
    return _ESCAPED.sub(
        lambda match: chr(int(match[1][1:], 16)) if len(match[1]) > 1 else _ESCAPES.get(match[1], match[1]),
        text,
    )


def login_options(text: str) -> dict[str, str]:
    """The options of the one login module in `sasl.jaas.config`; none for a blank text. Raises ValueError
    with what is wrong, without a value of the text: it may be a password.
    """
    if not text.strip():
        return {}
    tokens = list(_tokens(text))
    if len(tokens) < 2 or (tokens[1][1] or "").lower() not in _FLAGS:
        raise ValueError("the login module is not followed by `required`")
    options: dict[str, str] = {}
    rest = iter(tokens[2:])
    for kind, key in rest:
        if kind == ";":
            if next(rest, None) is not None:
                raise ValueError("it has more than one login module")
            return options
        if next(rest, ("", None))[0] != "=":
            raise ValueError(f"{key or kind!r} has no value")
        value_kind, value = next(rest, ("", None))
        if value is None or key is None:
            hint = "; write a value that begins with a digit in quotes" if value_kind == "number" else ""
            raise ValueError(f"{key or kind!r} has no value{hint}")
        options[key] = value
    raise ValueError("it does not end with a semicolon")


def _tokens(text: str) -> Iterator[tuple[str, str | None]]:
    """Each token's kind (a sign is its own kind), and its text if it is a word or in quotes."""
    for match in _TOKEN.finditer(text):
        kind, token = str(match.lastgroup), match[0]
        if kind == "word":
            yield kind, token
        elif kind == "quoted":
            inner = token[1:-1] if len(token) > 1 and token.endswith(token[0]) else token[1:]
            yield kind, _QUOTED_ESCAPE.sub(_quoted_escape, inner)
        elif kind != "blank":
            yield (token if kind == "sign" else kind), None


def _quoted_escape(match: re.Match[str]) -> str:
    code = match[1]
    return chr(int(code, 8)) if code.isdigit() and code[0] in "01234567" else _QUOTED_ESCAPES.get(code, code)
