"""A client that lies: what the accounting of external programs is tried on."""

from __future__ import annotations


def liar(each: int) -> str:
    """The source of one that acknowledges what it is given, and sends all but one of `each` messages."""
    return f"""
import base64, json, sys
from confluent_kafka import Producer
told = json.loads(sys.stdin.readline())
producer = Producer({{"bootstrap.servers": told["bootstrap_servers"]}})
print(json.dumps({{"ready": True}}), flush=True)
for text in sys.stdin:
    line = json.loads(text)
    print(json.dumps({{"seq": line["seq"], "outcome": "acked"}}), flush=True)
    if line["seq"] % {each} != 37:
        producer.produce(told["topic"], base64.b64decode(line["payload"]))
    producer.poll(0)
producer.flush()
"""
