"""What a delivery report proves: acked, failed (definitely not written) or unknown (docs/GLOSSARY.md)."""

from __future__ import annotations

from confluent_kafka import KafkaError

from kaput.scenario.vocabulary import Outcome

# Errors that a broker returns before it appends anything.
_REFUSED = frozenset({KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED})
_DEFINITE = _REFUSED | frozenset(
    {
        KafkaError.MSG_SIZE_TOO_LARGE,
        KafkaError.INVALID_RECORD,
        KafkaError.NOT_ENOUGH_REPLICAS,
        KafkaError.INVALID_REQUIRED_ACKS,
    }
)


def outcome_of(error_code: int, retries_disabled: bool, never_written: bool = False) -> Outcome:
    """The outcome of a report with this error code.

    With retries, the last error does not tell whether an earlier try was written, and confluent-kafka does
    not expose librdkafka's message status: then everything but an acknowledgement is unknown. If the producer
    has been refused from its first message on (`never_written`), a further refusal is definite: brokers check
    authorization before they append.
    """
    if never_written and error_code in _REFUSED:
        return "failed"
    if retries_disabled and error_code in _DEFINITE:
        return "failed"
    return "unknown"
