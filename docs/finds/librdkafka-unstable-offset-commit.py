"""librdkafka: a committed offset is forgotten if the group rebalances while a transaction holds it back.

    pip install confluent-kafka
    python librdkafka-unstable-offset-commit.py SERVERS [earliest|latest] [PROTOCOL] [alone]

PROTOCOL: classic, cooperative or consumer. A topic with two partitions of 1,000 messages; a group has
committed offset 900 in both. A transaction then adds offsets of the group and stays open, so that the
coordinator answers OffsetFetch with UNSTABLE_OFFSET_COMMIT. Member A joins and asks again and again; after
two seconds B joins (`alone`: it does not, the control), and eight seconds later the transaction is aborted.
No member commits. Each one's first offset of a partition must be 900. Prints:

    RESULT librdkafka=2.16.0 earliest classic: A read partition 0 from offset 0; B read partition 1 from ...
"""

import sys
import threading
import time
import uuid

from confluent_kafka import Consumer, Producer, TopicPartition, libversion
from confluent_kafka.admin import AdminClient, NewTopic

COMMITTED, MESSAGES, PARTITIONS = 900, 1000, (0, 1)
servers, *words = sys.argv[1:]
reset = "latest" if "latest" in words else "earliest"
protocol = next((word for word in words if word in ("cooperative", "consumer")), "classic")
name = uuid.uuid4().hex[:8]
topic, group = f"orders-{name}", f"billing-{name}"
began = time.monotonic()


def log(text):
    print(f"{time.monotonic() - began:6.2f} {text}", file=sys.stderr)


def consumer(client_id):
    settings = {
        "classic": {},
        "cooperative": {"partition.assignment.strategy": "cooperative-sticky"},
        "consumer": {"group.protocol": "consumer"},
    }[protocol]
    return Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": group,
            "client.id": client_id,
            "auto.offset.reset": reset,
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            **settings,
        }
    )


class Member(threading.Thread):
    """Notes the first offset that it is given of each partition."""

    def __init__(self, client_id):
        super().__init__(daemon=True)
        self.id, self.first, self.over = client_id, {}, threading.Event()

    def run(self):
        client = consumer(self.id)
        changed = {
            f"on_{what}": lambda _, of, what=what: log(f"{self.id}: {what} {[one.partition for one in of]}")
            for what in ("assign", "revoke")
        }
        client.subscribe([topic], **changed)
        while not self.over.is_set():
            for message in client.consume(500, timeout=0.1):
                if message.error() is None and message.partition() not in self.first:
                    self.first[message.partition()] = message.offset()
                    log(f"{self.id}: partition {message.partition()} from offset {message.offset()}")
        client.close()


admin = AdminClient({"bootstrap.servers": servers})
admin.create_topics([NewTopic(topic, 2, 1)])[topic].result(30)
producer = Producer({"bootstrap.servers": servers, "acks": "all"})
for number in range(MESSAGES):
    for partition in PARTITIONS:
        producer.produce(topic, str(number), partition=partition)
producer.flush(30)
setup = consumer("setup")
offsets = [TopicPartition(topic, partition, COMMITTED) for partition in PARTITIONS]
setup.commit(offsets=offsets, asynchronous=False)
log(f"committed: {COMMITTED} in both partitions")
pipe = Producer({"bootstrap.servers": servers, "transactional.id": name, "transaction.timeout.ms": 60_000})
pipe.init_transactions(30)
pipe.begin_transaction()
pipe.send_offsets_to_transaction(offsets, setup.consumer_group_metadata(), 30)
setup.close()
log("a transaction with offsets of the group is open")
members = [Member("A")]
members[0].start()
time.sleep(2)
if "alone" not in words:
    members.append(Member("B"))
    members[1].start()
time.sleep(8)
pipe.abort_transaction(30)
log("the transaction is aborted")
time.sleep(3)
for number in range(10):
    for partition in PARTITIONS:
        producer.produce(topic, f"new {number}", partition=partition)
producer.flush(30)
time.sleep(5)
for member in members:
    member.over.set()
for member in members:
    member.join(30)
found = "; ".join(
    f"{member.id} read partition {partition} from offset {first}"
    for member in members
    for partition, first in sorted(member.first.items())
)
mode = f"{reset} {protocol} alone" if "alone" in words else f"{reset} {protocol}"
print(f"RESULT librdkafka={libversion()[0]} {mode}: {found}")
