"""Each filter on a few records written by hand, one for each thing that it gets right or wrong."""

from __future__ import annotations

import pytest

from kaput.clients.dedup import EveryId, Filter, HighWaterMark, NumberedRecord, OneProducer, Scope


def record(
    seq: int, *, partition: int = 0, topic: str = "orders", producer: int = 0, epoch: int = 0
) -> NumberedRecord:
    """A record whose id and number are its seq."""
    return NumberedRecord(topic, partition, 0, seq, producer, seq, epoch, seq)


def passed(accepts: Filter, *records: NumberedRecord) -> list[int]:
    """The seqs of those that the filter finds new."""
    found = []
    for one in records:
        if accepts.is_new(one):
            found.append(one.seq)
        accepts.mark(one)
    return found


ALL = [EveryId, *(lambda scope=scope: HighWaterMark(scope) for scope in Scope), OneProducer]


@pytest.mark.parametrize("made", ALL)
def test_a_retry_is_dropped_by_every_filter(made: type[Filter]) -> None:
    """One request in flight: the copy comes right after the message."""
    assert passed(made(), *map(record, [0, 1, 1, 2])) == [0, 1, 2]


@pytest.mark.parametrize("made", ALL)
def test_is_new_does_not_mark_a_record(made: type[Filter]) -> None:
    """Only a mark makes a record old: a consumer may ask, and crash."""
    accepts = made()
    assert [accepts.is_new(record(0)), accepts.is_new(record(0))] == [True, True]


def test_a_message_that_was_overtaken_is_dropped_by_a_mark_and_not_by_its_id() -> None:
    """Request 0 was lost, 1 was written, then 0 was sent again."""
    late = [record(1), record(0)]
    assert passed(EveryId(), *late) == [1, 0]
    assert passed(HighWaterMark(), *late) == [1]
    assert passed(OneProducer(), *late) == [1]


def test_topic_mark_drops_late_messages_of_another_partition() -> None:
    """The producer wrote 0 and 1 to two partitions, and 1 is read first."""
    apart = [record(1, partition=1), record(0, partition=0)]
    assert passed(HighWaterMark(Scope.PARTITION), *apart) == [1, 0]
    assert passed(HighWaterMark(Scope.TOPIC), *apart) == [1]
    topics = [record(1, topic="invoices"), record(0, topic="orders")]
    assert passed(HighWaterMark(Scope.TOPIC), *topics) == [1, 0]
    assert passed(HighWaterMark(Scope.PRODUCER), *topics) == [1]


def test_a_narrower_mark_passes_a_copy_in_another_partition() -> None:
    """A retry whose partition was chosen anew."""
    copies = [record(0, partition=0), record(0, partition=1)]
    assert passed(HighWaterMark(Scope.PARTITION), *copies) == [0, 0]
    assert passed(HighWaterMark(Scope.TOPIC), *copies) == [0]


def test_each_producer_has_a_mark_of_its_own() -> None:
    """Two producers count from 0."""
    assert passed(HighWaterMark(), record(0, producer=1), record(0, producer=2)) == [0, 0]


def test_a_zombie_is_fenced_from_the_claim_on() -> None:
    """The new producer's claim has number -1; what the old one writes after it is dropped."""
    claim, zombie, owner = record(-1, epoch=1), record(5, epoch=0), record(1, epoch=1)
    assert passed(OneProducer(), record(0), claim, zombie, owner) == [0, 1]
    assert passed(OneProducer(fencing=False), record(0), claim, zombie, owner) == [0, 5]


def test_a_duplicate_of_a_newer_epoch_fences_as_well() -> None:
    """The new producer begins with a message that the old one had written."""
    assert passed(OneProducer(), record(0), record(0, epoch=1), record(1), record(1, epoch=1)) == [0, 1]
