"""A client for `client: command` (docs/ADDING_A_CLIENT.md): `client.py produce` or `client.py consume`."""

import base64
import json
import queue
import sys
import threading

from confluent_kafka import Consumer, Producer, TopicPartition


def say(**line):
    """One line to kaput, at once."""
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def produce():
    """Sends what comes in, and says what became of each."""
    told = json.loads(sys.stdin.readline())
    settings = {"acks": told["acks"], "enable.idempotence": told["idempotence"], **told["config"]}

    def connected(servers):
        client = Producer({"bootstrap.servers": servers, **settings})
        client.list_topics(told["topic"], timeout=30)  # so that the first send is not a cold one
        return client

    producer = connected(told["bootstrap_servers"])

    def report(seq):
        def delivered(error, message):
            if error is None:
                say(seq=seq, outcome="acked", partition=message.partition(), offset=message.offset())
            else:
                # Of a message that was retried nobody knows whether an earlier try was written.
                say(seq=seq, outcome="unknown", error=str(error))

        return delivered

    say(ready=True)
    # What was sent is reported while the next line is waited for.
    ended = threading.Event()
    poller = threading.Thread(target=lambda: [producer.poll(0.05) for _ in iter(ended.is_set, True)])
    poller.start()
    for text in sys.stdin:
        line = json.loads(text)
        if "move" in line:
            # To another cluster: what is in flight gets its outcome first.
            if producer.flush(5):
                producer.purge()
                producer.flush(5)
            producer = connected(line["move"]["bootstrap_servers"])
            say(moved=True)
            continue
        where = {"partition": line["partition"]} if "partition" in line else {}
        payload = base64.b64decode(line["payload"])
        while True:
            try:
                producer.produce(
                    told["topic"], payload, key=line["key"], on_delivery=report(line["seq"]), **where
                )
                break
            except BufferError:
                producer.poll(0.05)
    producer.flush()
    ended.set()
    poller.join()


def consume():
    """Says what it is handed, and commits it afterwards, until its input ends."""
    told = json.loads(sys.stdin.readline())
    settings = {"auto.offset.reset": "earliest", "isolation.level": told["isolation"], **told["config"]}
    lines, ended = queue.SimpleQueue(), threading.Event()

    def listen():
        for text in sys.stdin:
            lines.put(json.loads(text))
        ended.set()

    threading.Thread(target=listen, daemon=True).start()
    joining = "ready"  # what is said when it has its place in the group

    def changed(kind):
        def say_places(_consumer, places):
            nonlocal joining
            say(**{kind: [[place.topic, place.partition] for place in places]})
            if joining is not None:
                say(**{joining: True})
                joining = None

        return say_places

    def joined(servers):
        group = {"bootstrap.servers": servers, "group.id": told["group"], "enable.auto.commit": False}
        client = Consumer({**group, **settings})
        client.subscribe(
            told["topics"],
            on_assign=changed("assigned"),
            on_revoke=changed("revoked"),
            on_lost=changed("lost"),
        )
        return client

    consumer = joined(told["bootstrap_servers"])
    while not ended.is_set():
        line = {} if lines.empty() else lines.get()
        if "hold" in line:
            # It leaves its group here; everything it was handed is committed by now.
            consumer.close()
            say(held=True)
            line = lines.get()
            joining = "moved"
            consumer = joined(line["move"]["bootstrap_servers"])
        messages = [m for m in consumer.consume(500, timeout=0.1) if m.error() is None]
        positions = {}
        for message in messages:
            place = (message.topic(), message.partition())
            payload = message.value()
            say(
                topic=place[0],
                partition=place[1],
                offset=message.offset(),
                payload=None if payload is None else base64.b64encode(payload).decode(),
            )
            positions[place] = message.offset() + 1
        if positions:
            # Everything above has been said: a commit never runs ahead of it.
            offsets = [TopicPartition(topic, partition, at) for (topic, partition), at in positions.items()]
            done = consumer.commit(offsets=offsets, asynchronous=False)
            say(committed=[[at.topic, at.partition, at.offset] for at in done if at.error is None])
    consumer.close()


if __name__ == "__main__":
    {"produce": produce, "consume": consume}[sys.argv[1]]()
