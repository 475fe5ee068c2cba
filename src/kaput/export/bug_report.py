"""A run folder for a bug report: what a stranger may read, in one archive (`kaput bug`).

Taken: manifest, scenario, findings, the evidence, and the text files of brokers. The evidence has no keys
and payloads, only numbers of messages. Left out are pages and tables that follow from the evidence, stores
and data directories, which have payloads, and what other programs wrote (clients/). Secrets are removed from
everything else by the name of a setting or by their form (_SECRETS).
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import re
import socket
import tarfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet as pq
import yaml

from kaput.errors import UsageError
from kaput.evidence.folder import RunFolder, not_a_run

REMOVED = "(removed)"
_WORDS = (
    r"passw(?:or)?d|passphrase|secret|credential|jaas|api[-_.]?key|access[-_.]?key|private[-_.]?key|token|"
    r"keystore[-_.]key|key[-_.]pem|auth[-_.]user[-_.]info|confluent[-_.]license"
)
_SECRET_NAME = (
    rf"(?:[\w.-]{{0,80}}(?:{_WORDS})[\w.-]{{0,80}}|"
    r"(?:[\w.-]{0,80}(?:[_.-]|store|key|db|user)|PG|MYSQL)?(?:pass|pwd))"
)
_SECRET_KEY = re.compile(rf"^{_SECRET_NAME}$", re.IGNORECASE)
_SECRET_OPTION = re.compile(rf"^--?(?:{_SECRET_NAME}|user)$", re.IGNORECASE)  # its value is the next word
_CONTENT_KEYS = frozenset({"key", "value", "headers", "payload"})  # of a record
_QUOTED = r"""(?:"(?:\\.|[^"\\\n])*"|'[^'\n]*')"""
_VALUE = rf"(?!\(removed\))(?:{_QUOTED}|\[[^\]\n]*\]|[^\s,;&)}}\]]+)"
_BEFORE_VALUE = r"(?=[\w.-]+[\"']?\s*[=:])"  # most words fail here, and fast
# A class before what it says is no setting: `org.apache.TokenNotFoundException: ...`.
_NO_CLASS = (
    rf"(?!(?:(?:[\w-]+\.)+(?![\w$]*(?:{_WORDS})[ \t]*:)(?-i:[A-Z])[\w$]*|\w+(?-i:Exception|Error))[ \t]*:)"
)
_ARGUMENTS = r"(?:[^\n|;&]{0,400}?\s)?"  # of a program, before the one that is looked for
_SECRETS = (
    # A setting and its value: up to the end of a line with a dotted name, of a quoted text, or of a word.
    (
        re.compile(
            rf"(?im)^([ \t]*{_NO_CLASS}(?:[\w.-]{{0,80}}jaas[\w.-]{{0,80}}|(?=\S*[._]){_SECRET_NAME})"
            r"[ \t]*[=:][ \t]*)"
            r"(?:.*\\\n)*.*$"
        ),
        rf"\1{REMOVED}",
    ),
    (
        re.compile(rf"(?i)(?<![\w.-]){_BEFORE_VALUE}{_NO_CLASS}({_SECRET_NAME}[\"']?\s*[=:]\s*){_VALUE}"),
        rf"\1{REMOVED}",
    ),
    (re.compile(rf"(?i)\b(?=[\w.-]{{1,20}}\s+[\"'])((?:{_WORDS})\s+){_QUOTED}"), rf"\1{REMOVED}"),
    (re.compile(rf"(?i)(?<![\w.-])(--?(?=\w)(?:{_SECRET_NAME}|user)(?: +|=)){_VALUE}"), rf"\1{REMOVED}"),
    (
        re.compile(r"""(?<!\S)(-u[ =]?)(?:"[^"\n]*:[^"\n]*"|'[^'\n]*:[^'\n]*'|[^\s:"']+:\S+)"""),
        rf"\1{REMOVED}",
    ),
    # Programs of which a short option is a password.
    (re.compile(rf"\b(sshpass\s+(?:-v\s+)?-p\s*){_VALUE}"), rf"\1{REMOVED}"),
    (re.compile(rf"\b((?:mysql|mariadb)[\w-]*{_ARGUMENTS}(?<=\s)-p){_VALUE}"), rf"\1{REMOVED}"),
    (re.compile(rf"\b(redis-cli\b{_ARGUMENTS}(?<=\s)-a\s*){_VALUE}"), rf"\1{REMOVED}"),
    (re.compile(r"(?i)(\bauthorization[\"']?\s*[:=]\s*[\"']?(?:[\w-]+[ \t]+)?)[^\s\"']+"), rf"\1{REMOVED}"),
    (re.compile(r"(?i)\b(Bearer|Basic|ApiKey)\s+[\w.~+/=-]{4,}"), rf"\1 {REMOVED}"),
    (re.compile(r"(?<=://)[^\s/@]+@"), f"{REMOVED}@"),
    (re.compile(r"(?i)([?&](?:sig|signature|key|code)=)[^\s&]+"), rf"\1{REMOVED}"),
    (re.compile(r"-----BEGIN [^-]+-----.*?(?:-----END [^-]+-----|\Z)", re.DOTALL), REMOVED),
    (re.compile(r"\beyJ[\w-]+\.[\w-]+\.[\w-]+|\bAKIA[0-9A-Z]{16}\b|\bgh[pousr]_\w{20,}"), REMOVED),
)
_TEXTS = ("*.log", "*.properties", "*.tsv")  # of brokers
_TEXT_BYTES_MAX = 10 << 20  # of one text file: its end


def pack(folder: Path, out: Path, about: dict[str, Any]) -> list[str]:
    """Writes the archive, a tar.gz. Returns sentences on what could not be read. `about`: what is installed,
    as kaput-version.json. Raises UsageError if there is no run, or if `out` exists or cannot be written.
    """
    run = RunFolder(folder)
    if not run.manifest_path.is_file():
        raise UsageError(not_a_run(folder))
    left_out: list[str] = []
    try:
        with (
            out.open("xb") as raw,
            gzip.GzipFile("", "wb", mtime=0, fileobj=raw) as packed,
            tarfile.open(fileobj=packed, mode="w") as archive,
        ):
            _add(archive, f"{hidden(run.name)}/kaput-version.json", json.dumps(about, indent=1).encode())
            taken = Counter[str]()
            for name, content in _files(run, left_out):
                _add(archive, _hidden_name(run, name, taken), content)
    except FileExistsError:
        raise UsageError(f"{out}: already exists, and is not overwritten; give a new name") from None
    except OSError as error:
        raise UsageError(f"{error.filename or out}: {error.strerror}; choose another --out") from None
    return left_out


def hidden(text: str) -> str:
    """The text without passwords, tokens, keys, this machine's name and the user's home directory."""
    for pattern, instead in _SECRETS:
        text = pattern.sub(instead, text)
    text = text.replace(str(Path.home()), "~") if len(Path.home().parts) > 1 else text
    name = socket.gethostname()
    return re.sub(rf"\b{re.escape(name)}\b", "this-machine", text) if name not in ("", "localhost") else text


def _hidden_name(run: RunFolder, name: str, taken: Counter[str]) -> str:
    """Its path in the archive. Names that are equal without their secrets are numbered."""
    *folders, file = name.split("/")
    stem, suffix = Path(file).stem, Path(file).suffix
    path = "/".join(map(hidden, (run.name, *folders, stem)))
    taken[path + suffix] += 1
    number = taken[path + suffix]
    return f"{path}-{number}{suffix}" if number > 1 else f"{path}{suffix}"


def without_secrets(document: Any, content_keys: frozenset[str] = frozenset(), name: str = "") -> Any:
    """A JSON or YAML document without secrets; what is below one of `content_keys` becomes a hash."""
    match document:
        case dict():
            below = name if _SECRET_KEY.match(name) else None  # all that is below a secret's name
            return {
                key: value
                if below and isinstance(value, int | float)  # figures, as of a group that has such a name
                else without_secrets(value, content_keys, below or str(key))
                for key, value in document.items()
            }
        case list():
            words = ["", *map(str, document)]  # of a command: `--password`, and then the password
            shown = [
                REMOVED if _is_of_option(before, value) else without_secrets(value, content_keys, name)
                for before, value in zip(words, document, strict=False)
            ]
            line = " ".join(shown) if all(isinstance(each, str) for each in shown) else ""
            return shown if hidden(line) == line else hidden(line).split(" ")
        case _ if _SECRET_KEY.match(name) and document is not None:
            return REMOVED
        case str() if name in content_keys:
            return f"sha256:{hashlib.sha256(document.encode()).hexdigest()[:16]}"
        case str():
            return hidden(document)
    return document


def _is_of_option(before: str, value: Any) -> bool:
    """Whether the word of a command is what the option before it keeps secret."""
    return bool(_SECRET_OPTION.match(before)) or (before == "-u" and ":" in str(value))


def _files(run: RunFolder, left_out: list[str]) -> Iterator[tuple[str, bytes]]:
    """Path in the run folder and content."""
    for path in (run.manifest_path, run.findings_path, run.scenario_path):
        if not path.is_file():
            continue
        # A scenario's `key` is a word of its own, not a record's.
        is_yaml = path == run.scenario_path
        try:
            text = path.read_text(encoding="utf-8")
            parsed = yaml.safe_load(text) if is_yaml else json.loads(text)
            document = without_secrets(parsed, frozenset() if is_yaml else _CONTENT_KEYS)
        except (ValueError, yaml.YAMLError) as error:
            left_out.append(f"{path.name} cannot be read: {error}")
            continue
        yield path.name, (yaml.safe_dump if is_yaml else json.dumps)(document).encode()
    for path in sorted((run.path / "evidence").glob("*/*")):
        if path.suffix in (".parquet", ".arrows"):
            try:
                yield str(path.relative_to(run.path)), _table(path)
            except (pa.ArrowException, OSError, ValueError) as error:
                left_out.append(f"{path.relative_to(run.path)} cannot be read: {error}")
    for pattern in _TEXTS:
        for path in sorted(run.brokers.glob(f"*/{pattern}")):
            data = path.read_bytes()[-_TEXT_BYTES_MAX:]
            yield str(path.relative_to(run.path)), hidden(data.decode(errors="replace")).encode()


def _table(path: Path) -> bytes:
    """The file again, with each text in it hidden()."""
    file = io.BytesIO()
    if path.suffix == ".parquet":
        pq.write_table(_hidden_texts(pq.read_table(path)), file)
        return file.getvalue()
    with pa.ipc.open_stream(path) as stream, pa.ipc.new_stream(file, stream.schema) as writer:
        try:
            for batch in stream:
                for one in _hidden_texts(pa.Table.from_batches([batch])).to_batches():
                    writer.write_batch(one)
        except (pa.ArrowInvalid, OSError):
            pass  # the torn tail of a writer that was killed
    return file.getvalue()


def _hidden_texts(table: pa.Table) -> pa.Table:
    for number, field in enumerate(table.schema):
        dictionary = pa.types.is_dictionary(field.type)
        kind = field.type.value_type if dictionary else field.type
        if pa.types.is_string(kind) or pa.types.is_large_string(kind):
            encoded = table.column(number).combine_chunks()
            encoded = encoded if dictionary else encoded.dictionary_encode()
            words = [None if word is None else hidden(word) for word in encoded.dictionary.to_pylist()]
            column = pa.DictionaryArray.from_arrays(encoded.indices, pa.array(words, kind))
            table = table.set_column(number, field, column.cast(field.type))
    return table


def _add(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    info = tarfile.TarInfo(name)  # no owner, no time
    info.size = len(content)
    archive.addfile(info, io.BytesIO(content))
