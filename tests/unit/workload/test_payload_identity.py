"""The payload's header: identities survive the way to bytes and back, and damage never passes."""

import uuid

from hypothesis import given
from hypothesis import strategies as st

from kaput.scenario.model import MIN_PAYLOAD_BYTES
from kaput.workload.payload import CORRUPT, FOREIGN, HEADER_BYTES, Codec, Identity

RUN = uuid.UUID(int=0x1234_5678_9ABC_DEF0_1234_5678_9ABC_DEF0)
identities = st.builds(
    Identity, st.integers(0, 2**31 - 1), st.integers(0, 2**63 - 1), st.integers(0, 2**63 - 1)
)


def test_minimum_payload_size_matches_the_scenario_model() -> None:
    """The model, a layer below, repeats the header's size; the two must agree."""
    assert MIN_PAYLOAD_BYTES == HEADER_BYTES


@given(identities, st.integers(HEADER_BYTES, 300))
def test_identity_round_trips_through_a_payload(identity: Identity, size: int) -> None:
    """Whatever the identity and the size, decoding is the inverse of encoding."""
    codec = Codec(RUN, size, b"fill")
    payload = codec.encode(*identity)
    assert len(payload) == size
    assert codec.decode(payload) == (True, identity)


@given(identities, st.data())
def test_any_single_damaged_byte_is_corrupt(identity: Identity, data: st.DataObject) -> None:
    """One flipped byte anywhere, header, checksum or padding, makes the record corrupt, never foreign."""
    codec = Codec(RUN, 80, b"fill")
    payload = bytearray(codec.encode(*identity))
    place = data.draw(st.integers(0, len(payload) - 1))
    payload[place] ^= data.draw(st.integers(1, 255))
    assert codec.decode(bytes(payload)) == CORRUPT


def test_records_of_other_programs_and_runs_are_foreign() -> None:
    """Another program's record, another run's message, and a tombstone are nobody of ours."""
    codec = Codec(RUN)
    other = Codec(uuid.UUID(int=7)).encode(1, 2, 3)
    assert codec.decode(b"hello") == FOREIGN
    assert codec.decode(b"x" * 200) == FOREIGN
    assert codec.decode(None) == FOREIGN
    assert codec.decode(other) == FOREIGN


def test_a_truncated_message_of_ours_is_corrupt() -> None:
    """A record that opens with our magic but is too short was cut."""
    codec = Codec(RUN)
    assert codec.decode(codec.encode(1, 2, 3)[:20]) == CORRUPT
