"""A client for `client: command` (docs/ADDING_A_CLIENT.md): `client.py produce` or `client.py consume`."""

import base64
import json
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
    producer = Producer({"bootstrap.servers": told["bootstrap_servers"], **settings})
    producer.list_topics(told["topic"], timeout=30)  # so that the first send is not a cold one

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
    consumer = Consumer(
        {
            "bootstrap.servers": told["bootstrap_servers"],
            "group.id": told["group"],
            "enable.auto.commit": False,
            **settings,
        }
    )
    ended = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()
    ready = False

    def changed(kind):
        def say_places(_consumer, places):
            nonlocal ready
            say(**{kind: [[place.topic, place.partition] for place in places]})
            if not ready:
                ready = True
                say(ready=True)

        return say_places

    consumer.subscribe(
        told["topics"], on_assign=changed("assigned"), on_revoke=changed("revoked"), on_lost=changed("lost")
    )
    while not ended.is_set():
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
