"""Libraries for the user's own programs (docs/CLIENTS.md).

    keep     a producer that keeps the messages that Kafka did not accept; public as `kaput.keep`
    audit    a producer and a consumer that count, for `kaput watch --audit`
    dedup    consumers' filters against duplicates, and how they are measured

Nothing here imports the rest of kaput, except its exceptions.
"""
