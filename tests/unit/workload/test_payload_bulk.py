"""Payloads by the thousand say what they say one by one."""

import uuid

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kaput.core import NULL_INT, NULL_LONG
from kaput.workload.payload import Codec
from kaput.workload.payload_bulk import BulkDecoder, Stamps

RUN, OTHER = uuid.UUID(int=5), uuid.UUID(int=6)
NOW = 1_700_000_000_000_000_000

small, large = Codec(RUN, 60, b"fill"), Codec(RUN, 100, b"fill")
unlike = Codec(RUN, 60, b"else")
stranger = Codec(OTHER, 60, b"fill")

identities = st.tuples(st.integers(0, 2**31 - 1), st.integers(0, 2**40), st.integers(NOW, NOW + 2**50))
own = st.sampled_from([small, small, small, small, large, unlike, stranger]).flatmap(
    lambda codec: st.builds(lambda who: codec.encode(*who), identities)
)


def damaged(payload: bytes, at: int, bit: int) -> bytes:
    """The payload with one bit turned."""
    at %= len(payload)
    return payload[:at] + bytes([payload[at] ^ (1 << bit)]) + payload[at + 1 :]


payloads = st.one_of(
    own,
    own,
    own,
    st.builds(damaged, own, st.integers(0, 99), st.integers(0, 7)),
    st.binary(max_size=60),
    st.none(),
)


@given(st.lists(payloads, max_size=20))
def test_bulk_and_single_decoding_agree(mixed: list[bytes | None]) -> None:
    """Whatever is in the log: own, damaged, of another run, of another size, foreign, or empty."""
    said = BulkDecoder(Codec(RUN)).decode(mixed)
    for at, payload in enumerate(mixed):
        intact, identity = Codec(RUN).decode(payload)
        found = (bool(said.intact[at]), int(said.producer[at]), int(said.seq[at]))
        who = (identity.producer, identity.seq) if identity else (NULL_INT, NULL_LONG)
        assert found == (intact, *who)


def test_every_flipped_bit_is_detected_in_bulk() -> None:
    """One damaged message among intact ones of its size: none of its bits can turn unseen."""
    crowd = [small.encode(seq % 3, seq, NOW + seq * 1000) for seq in range(4)]
    decoder = BulkDecoder(Codec(RUN))
    for bit in range(60 * 8):
        said = decoder.decode([*crowd, damaged(crowd[1], bit // 8, bit % 8)])
        assert said.intact[:4].all() and not said.intact[4]
        assert list(said.seq[:4]) == [0, 1, 2, 3] and said.seq[4] == NULL_LONG


def test_payloads_split_at_other_boundaries_are_not_joined() -> None:
    """Two records that are no messages, but whose bytes together are: each is judged on its own."""
    first, second = small.encode(0, 0, NOW), small.encode(0, 1, NOW)
    said = BulkDecoder(Codec(RUN)).decode([first, second + first[:30], first[30:]])
    assert list(said.intact) == [True, False, True]
    assert list(said.seq) == [0, NULL_LONG, NULL_LONG]


def test_message_inside_a_longer_record_is_not_decoded() -> None:
    """A short record makes up for what is before the message: their sizes add up."""
    first, second = small.encode(0, 0, NOW), small.encode(0, 1, NOW)
    said = BulkDecoder(Codec(RUN)).decode([first, b"x" * 50, b"y" * 10 + second, second])
    assert list(said.intact) == [True, True, True, True]
    assert list(said.seq) == [0, NULL_LONG, NULL_LONG, 1]


@given(st.lists(st.lists(payloads, max_size=8), max_size=6))
def test_incremental_and_single_decoding_agree(parts: list[list[bytes | None]]) -> None:
    """In the order in which it came, and nothing of it a second time."""
    decoder, every = BulkDecoder(Codec(RUN)), [payload for part in parts for payload in part]
    for part in parts:
        decoder.gather(part)
    said, wanted = decoder.gathered(), [Codec(RUN).decode(payload) for payload in every]
    assert said.intact.tolist() == [one.intact for one in wanted]
    assert said.seq.tolist() == [one.identity.seq if one.identity else NULL_LONG for one in wanted]
    assert len(decoder.gathered().seq) == 0


def test_large_batches_are_decoded_correctly() -> None:
    """More than fit into one step, of several producers, one of them damaged."""
    made: list[bytes | None] = [large.encode(seq % 5, seq, NOW + seq * 977) for seq in range(70_000)]
    made[65_000] = damaged(large.encode(0, 65_000, NOW), 70, 1)
    said = BulkDecoder(Codec(RUN)).decode(made)
    assert np.flatnonzero(~said.intact).tolist() == [65_000]
    wanted = np.arange(70_000)
    wanted[65_000] = NULL_LONG
    assert (said.seq == wanted).all() and (said.producer[:65_000] == wanted[:65_000] % 5).all()


def test_seq_and_send_time_are_read_from_payloads() -> None:
    """Seq and send time, from whole payloads and from parts cut out of them."""
    made = [large.encode(3, seq, NOW + seq) for seq in (7, 2**33)]
    wanted = [[7, 2**33], [NOW + 7, NOW + 2**33]]
    assert Stamps(100).read(b"".join(made)).tolist() == wanted
    assert Stamps(16, at=0).read(b"".join(payload[24:40] for payload in made)).tolist() == wanted
