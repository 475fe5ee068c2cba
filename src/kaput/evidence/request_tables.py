"""The tables of kaput.evidence/1 about requests of Kafka's protocol. All tables: schemas.py."""

from __future__ import annotations

from kaput.evidence.common_columns import INT, LONG, OF_CLUSTER, TEXT
from kaput.evidence.evidence_table import Column, EvidenceTable

FRAMES = EvidenceTable(
    "frames",
    "a request that matched a fault in the protocol: all that were acted upon, and the first that passed",
    "the nemesis, from the proxies in front of the brokers; at most 10,000 and 100 by fault and broker",
    (
        Column("fault", TEXT, "the fault's id"),
        Column("broker", INT, "the broker that was asked"),
        Column("api", TEXT, "the request, by Kafka's name"),
        Column("api_version", INT, "its version"),
        Column("correlation_id", INT, "its correlation id"),
        Column("client_id", TEXT, "what its sender calls itself", "it does not say"),
        Column("connection", TEXT, "the sender's address and port"),
        Column("action", TEXT, "what was done to it", "it passed"),
        Column("at_ns", LONG, "when it came to the proxy"),
        OF_CLUSTER,
    ),
)

REQUESTS = EvidenceTable(
    "requests",
    "the first request of a kind, of one version and one client id, that a broker authorized",
    "brokers of kaput's own clusters without security (cluster/java/RequestVersions.java)",
    (
        Column("broker", INT, "the broker"),
        Column("client_id", TEXT, "the client's client.id"),
        Column("api", TEXT, "Kafka's name of the request, such as EndTxn"),
        Column("version", INT, "the version of the request"),
        Column("at_ns", LONG, "when, in whole milliseconds"),
        OF_CLUSTER,
    ),
)
