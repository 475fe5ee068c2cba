"""What kaput uses of kafka-python: messages of Kafka's protocol, and what its error codes mean.

In one place, because loading kafka-python's message descriptions causes a DeprecationWarning, and kaput must
work in programs that treat warnings as errors.
"""

from __future__ import annotations

import warnings

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.errors import KafkaError, for_code
    from kafka.net.sasl import get_sasl_mechanism
    from kafka.protocol import admin, consumer, metadata, sasl
    from kafka.protocol.broker_version_data import infer_broker_version_from_api_versions
    from kafka.protocol.parser import KafkaProtocol
    from kafka.record.default_records import DefaultRecordBatchBuilder
    from kafka.record.util import calc_crc32c

    from kaput.cluster import messages

__all__ = [
    "DefaultRecordBatchBuilder", "KafkaError", "KafkaProtocol", "admin", "calc_crc32c", "consumer",
    "for_code", "get_sasl_mechanism",
    "infer_broker_version_from_api_versions", "messages", "metadata", "sasl",
]  # fmt: skip
