"""Error responses to every API that may get one, in each of its versions: Kafka's own classes read them."""

from __future__ import annotations

import base64
import json
import subprocess
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kaput.cluster.distribution import resolve
from kaput.cluster.frames.error_answers import ErrorAnswer, error_answer
from kaput.cluster.message_schemas import MessageCodec, Schema, read_schemas
from kaput.core import NEWEST_KAFKA
from kaput.errors import LabError
from kaput.java import find_java
from kaput.scenario.apis import API_KEYS, ERROR_CODES, ERRORS_OF

TOPIC_ID = base64.urlsafe_b64encode(bytes(15) + b"\1").decode().rstrip("=")
ABSENT = {
    "int8": 1,
    "uint16": 1,
    "int16": 1,
    "int32": 3,
    "int64": 1,
    "bool": False,
    "uuid": TOPIC_ID,
    "float64": 0.5,
}


class Oracle:
    """Kafka's classes in a JVM (MessageOracle.java)."""

    def __init__(self, kafka: Any) -> None:
        program = Path(__file__).with_name("MessageOracle.java")
        command = [str(find_java().path), "-cp", kafka.classpath, str(program)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )

    def ask(self, *words: object) -> str:
        assert self._process.stdin is not None and self._process.stdout is not None
        print(*words, file=self._process.stdin, flush=True)
        answer = self._process.stdout.readline().strip()
        assert answer and not answer.startswith("!"), f"{words[:3]}: {answer}"
        return answer

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()


@pytest.fixture(scope="module")
def kafka() -> Any:
    return resolve(NEWEST_KAFKA, find_java())


@pytest.fixture(scope="module")
def jar(kafka: Any) -> Path:
    return next(each for each in kafka.jars if each.name.startswith("kafka-clients-"))


@pytest.fixture(scope="module")
def oracle(kafka: Any) -> Iterator[Oracle]:
    made = Oracle(kafka)
    yield made
    made.close()


def schemas(jar: Path, api: str) -> list[Schema]:
    """Those of its request and its response."""
    return read_schemas([jar], "message", [f"{api}Request", f"{api}Response"])


def request(codec: MessageCodec, fields: list[Schema]) -> dict[str, Any]:
    """Values in JSON for all fields of a request: a topic `orders` with the partitions 3 and 4, and so on."""
    return {
        field["name"][0].lower() + field["name"][1:]: value(codec, field, field["type"])
        for field in codec.fields(fields)
    }


def value(codec: MessageCodec, field: Schema, type_: str) -> Any:
    """Of one field."""
    if type_ == "[]int32":
        return [3, 4]
    if type_.startswith("[]"):
        return [value(codec, field, type_[2:])]
    if type_ in ABSENT:
        return ABSENT[type_]
    if type_ == "string":
        return "orders" if field["name"] in ("Name", "Topic", "TopicName") else "billing"
    return "" if type_ in ("bytes", "records") else request(codec, list(codec.below(field)))


def codes(answer: Any) -> list[int]:
    """Every error code in a response."""
    if isinstance(answer, list):
        return [code for each in answer for code in codes(each)]
    if not isinstance(answer, dict):
        return []
    own = [answer[name] for name in ("errorCode", "partitionErrorCode") if name in answer]
    return own + [code for each in answer.values() for code in codes(each)]


def versions(schema: Schema) -> range:
    """The valid ones."""
    first, _, last = schema["validVersions"].partition("-")
    return range(int(first), int(last or first) + 1)


@pytest.mark.parametrize("api", ERRORS_OF)
def test_kafka_reads_each_error_response_and_finds_the_code_in_it(
    api: str, oracle: Oracle, jar: Path
) -> None:
    """In each version; in the response itself or in its parts, which are those of the request."""
    both = schemas(jar, api)
    for version in versions(both[0]):
        asked = json.dumps(request(MessageCodec(both[0], version), both[0]["fields"]))
        frame = bytes.fromhex(oracle.ask("encode", api, version, asked))
        for whole in [where for where, names in ((True, 0), (False, 1)) if ERRORS_OF[api][names]]:
            answered = error_answer(both, frame, ErrorAnswer(api, 42, whole))
            assert answered is not None and answered[:4] == (7).to_bytes(4)
            head = 5 if MessageCodec(both[1], version).flexible else 4
            read = json.loads(oracle.ask("decode", api, version, answered[head:].hex()))
            given = [code for code in codes(read) if code]
            assert given and set(given) == {42}, (api, version, whole, read)
            text = json.dumps(read)
            if not whole and api not in ("FindCoordinator", "StreamsGroupDescribe", "LeaveGroup"):
                assert "orders" in text or TOPIC_ID in text, (api, version, read)
                assert api == "DeleteShareGroupOffsets" or "3" in text


@pytest.mark.parametrize("acknowledges", [True, False])
def test_fetch_of_a_share_group_that_failed_has_acknowledged_nothing(
    acknowledges: bool, oracle: Oracle, jar: Path
) -> None:
    """Otherwise its member would count what it accepted with that request as confirmed."""
    both = schemas(jar, "ShareFetch")
    for version in versions(both[0]):
        asked = request(MessageCodec(both[0], version), both[0]["fields"])
        if not acknowledges:
            asked["topics"][0]["partitions"][0]["acknowledgementBatches"] = []
        frame = bytes.fromhex(oracle.ask("encode", "ShareFetch", version, json.dumps(asked)))
        answered = error_answer(both, frame, ErrorAnswer("ShareFetch", 6, False))
        assert answered is not None
        read = json.loads(oracle.ask("decode", "ShareFetch", version, answered[5:].hex()))
        (partition,) = read["responses"][0]["partitions"]
        assert (partition["errorCode"], partition["acknowledgeErrorCode"]) == (6, 6 if acknowledges else 0)


def test_error_codes_are_kafkas(oracle: Oracle) -> None:
    """By Kafka's own enumeration."""
    assert {name: int(oracle.ask("code", name)) for name in ERROR_CODES} == ERROR_CODES
    assert set(ERROR_CODES) == {name for errors in ERRORS_OF.values() for name in errors.names}


def test_errors_that_schemas_list_are_allowed(jar: Path) -> None:
    """Where Kafka's schemas have a list of errors, nothing of it is missing."""
    with zipfile.ZipFile(jar) as opened:
        for api, errors in ERRORS_OF.items():
            text = opened.read(f"common/message/{api}Response.json").decode()
            listed = [line.split()[2] for line in text.splitlines() if line.strip().startswith("// - ")]
            assert [name for name in listed if name.isupper() and name not in errors] == [], api


def test_every_api_has_a_key() -> None:
    assert set(ERRORS_OF) <= set(API_KEYS)


def test_produce_request_without_acks_gets_no_answer(oracle: Oracle, jar: Path) -> None:
    """Its client expects none, and would take it for the answer to its next request."""
    both = schemas(jar, "Produce")
    asked = request(MessageCodec(both[0], 12), both[0]["fields"]) | {"acks": 0}
    frame = bytes.fromhex(oracle.ask("encode", "Produce", 12, json.dumps(asked)))
    assert error_answer(both, frame, ErrorAnswer("Produce", 6, False)) is None


@pytest.mark.parametrize("frame", [b"\0\0\0\x63" + bytes(20), b"\0\0\0\x0c\0\0\0\1\0\2me\0\0\0\5ab"])
def test_request_that_cannot_be_read_gets_no_answer(frame: bytes, jar: Path) -> None:
    """A version that the schema does not know, and bytes that end too early."""
    assert error_answer(schemas(jar, "Produce"), frame, ErrorAnswer("Produce", 6, False)) is None


def test_unknown_api_names_the_jar(jar: Path) -> None:
    with pytest.raises(
        LabError, match=r"kafka-clients-.* does not know Nothing; use a newer version of Kafka"
    ):
        schemas(jar, "Nothing")
