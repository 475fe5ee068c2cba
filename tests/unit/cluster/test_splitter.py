"""Frames in a stream of bytes: whichever way they are cut, what is not wanted passes as it came."""

from __future__ import annotations

import random

import pytest

from fakes.frame_broker import END_TXN, answer, request
from kaput.cluster.frames.connection_end import REQUEST, RESPONSE, Frame, Request, Splitter

PRODUCE = 0


def split(splitter: Splitter, *chunks: bytes) -> tuple[bytes, list[bytes]]:
    """Everything in order, and the frames that were set apart."""
    parts = [part for chunk in chunks for part in splitter.split(chunk)]
    whole = b"".join(part.data if isinstance(part, Frame) else part for part in parts)
    return whole, [part.data for part in parts if isinstance(part, Frame)]


def test_request_header_is_parsed() -> None:
    """Its version, correlation id and client id; a client need not say who it is."""
    (asked,) = Splitter(REQUEST, {END_TXN}).split(request(END_TXN, 77, "kaput-producer-0"))
    assert isinstance(asked, Request)
    assert (asked.api, asked.version, asked.correlation_id) == (END_TXN, 3, 77)
    assert asked.client_id == "kaput-producer-0"
    (silent,) = Splitter(REQUEST, {END_TXN}).split(request(END_TXN, 77, None))
    assert isinstance(silent, Request) and silent.client_id is None


def test_chunk_without_matching_frames_passes_uncopied() -> None:
    """It is not even copied, however many frames are in it and wherever it ends."""
    splitter = Splitter(REQUEST, {END_TXN})
    chunk = request(PRODUCE, 1) * 3 + request(PRODUCE, 2, body=bytes(500))[:100]
    (passed,) = splitter.split(chunk)
    assert passed is chunk and splitter.seen == 4


def test_matching_frames_are_found_within_a_chunk() -> None:
    """And stay in their places."""
    chunk = request(PRODUCE, 1) + request(END_TXN, 2) + request(PRODUCE, 3) + request(END_TXN, 4)
    splitter = Splitter(REQUEST, {END_TXN})
    assert split(splitter, chunk) == (chunk, [request(END_TXN, 2), request(END_TXN, 4)])
    assert splitter.seen == 4


@pytest.mark.parametrize("seed", range(20))
def test_frames_are_found_for_any_chunk_boundaries(seed: int) -> None:
    """Down to single bytes; nothing is lost, doubled or moved."""
    draw = random.Random(seed)
    frames = [
        request(draw.choice([PRODUCE, END_TXN]), n, draw.choice([None, "", "me"]), bytes(draw.randrange(90)))
        for n in range(40)
    ]
    stream, cuts = b"".join(frames), []
    while sum(map(len, cuts)) < len(stream):
        at = sum(map(len, cuts))
        cuts.append(stream[at : at + draw.choice([1, 2, 5, 30, 300])])
    splitter = Splitter(REQUEST, {END_TXN})
    whole, wanted = split(splitter, *cuts)
    assert whole == stream and splitter.seen == 40
    assert wanted == [frame for frame in frames if frame[4:6] == END_TXN.to_bytes(2)]


def test_partial_frame_passes_if_no_longer_matched() -> None:
    """A rule may end while its frame is still coming."""
    wanted = {END_TXN}
    splitter, frame = Splitter(REQUEST, wanted), request(END_TXN, 1)
    assert splitter.split(frame[:12]) == []
    wanted.clear()
    assert splitter.split(frame[12:]) == [frame] and splitter.seen == 1


@pytest.mark.parametrize(
    "garbage", [b"GET / HTTP/1.1\r\n\r\n", bytes(20), b"\xff" * 20, bytes.fromhex("1603010200010001fc0303")]
)
def test_non_kafka_bytes_pass_unchanged(garbage: bytes) -> None:
    """Then and from then on."""
    splitter = Splitter(REQUEST, set(range(100)))
    assert split(splitter, garbage, request(END_TXN, 1)) == (garbage + request(END_TXN, 1), [])


def test_responses_are_matched_by_correlation_id() -> None:
    """They have nothing else in front."""
    answers = [answer(n) for n in range(5)]
    whole, wanted = split(Splitter(RESPONSE, {3}), b"".join(answers))
    assert (whole, wanted) == (b"".join(answers), [answers[3]])
    assert Frame(answers[3]).correlation_id == 3
