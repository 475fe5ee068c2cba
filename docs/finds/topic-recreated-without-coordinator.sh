#!/usr/bin/env bash
# A group's offset in a deleted topic comes back: Kafka's own brokers, clients and tools, and nothing else.
#
#   KAFKA_HOME=/opt/kafka ./topic-recreated-without-coordinator.sh [MODE] [CLIENT]
#
# MODE     none      the group's coordinator is alive when the topic is deleted (the control)
#          kill      it is killed (SIGKILL), and the topic deleted before another broker takes over
#          frozen    the same with SIGSTOP, as a machine that hangs; it continues 25 s later
#          slow      SIGSTOP for 4 s only: it stays the coordinator
#          restart   kill, and the same broker is started again and takes over, with no other replica
#          later     kill; the topic is only deleted, and created again after another broker took over
# CLIENT   classic   the console consumer with group.protocol=classic
#          consumer  the same with group.protocol=consumer (KIP-848)
#          pipe      TransactionalMessageCopier: offsets are committed in transactions
#
# LEADER=coordinator: the coordinator also leads the topic (otherwise another broker does).
# KAFKA_HOME has libs/*.jar; CLIENT_HOME, if set, those of another version for the consumers.
# Needs bash, Java 17 and four free ports (PORTS="19490 19491 19492 19493"). SESSION_MS (9000, Kafka's default) is
# how long the cluster waits for a dead broker: on a busy machine, where tools start slowly, use more. Prints:
#
#   RESULT kafka=4.4.0 client=4.4.0 kill classic: offset 100 of the old topic is there; read 50 of 150, unseen 100
set -euo pipefail
mode=${1:-kill} client=${2:-classic}
read -ra ports <<<"${PORTS:-19490 19491 19492 19493}"
: "${KAFKA_HOME:?the folder of a Kafka distribution}"
home=$(mktemp -d) group=billing offsets_rf=3
[ "$mode" = restart ] && offsets_rf=1
declare -A pids=()
version_of() { basename "$(ls "$1"/libs/kafka-clients-*.jar)" .jar | sed 's/kafka-clients-//'; }
java_() { java -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xmx256m -Duser.timezone=UTC -cp "$1/libs/*" "${@:2}" 2>>"$home/tools.log"; }
tool() { java_ "$KAFKA_HOME" "$@"; }
say() { echo "$(date -u +%T.%3N) $*" >&2; }
trap 'for p in "${pids[@]}"; do kill -9 "$p" 2>/dev/null || true; done; wait 2>/dev/null; rm -rf "$home"' EXIT

start() { # node id: 100 is the controller, 1 to 3 are brokers
  local roles=broker name=PLAINTEXT own=${ports[$1 % 100]}
  [ "$1" = 100 ] && roles=controller name=CONTROLLER
  local file="$home/$1.properties"
  cat >"$file" <<PROPERTIES
process.roles=$roles
node.id=$1
controller.quorum.voters=100@127.0.0.1:${ports[0]}
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
listeners=$name://127.0.0.1:$own
log.dirs=$home/data-$1
offsets.topic.num.partitions=1
offsets.topic.replication.factor=$offsets_rf
transaction.state.log.num.partitions=1
transaction.state.log.replication.factor=3
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
group.coordinator.rebalance.protocols=classic,consumer
broker.session.timeout.ms=${SESSION_MS:-9000}
PROPERTIES
  [ -e "$home/data-$1" ] || tool kafka.tools.StorageTool format -t "$cluster" -c "$file" >>"$home/tools.log"
  exec java -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xmx256m -cp "$KAFKA_HOME/libs/*" kafka.Kafka "$file" \
    >>"$home/node-$1.log" 2>&1
}

brokers() { # bootstrap servers without the one that is down
  for n in 1 2 3; do [ "$n" = "${down:-}" ] || echo -n "127.0.0.1:${ports[$n]},"; done | sed 's/,$//'
}
topic() { tool org.apache.kafka.tools.TopicCommand --bootstrap-server "$(brokers)" "$@"; }
create() { topic --create --topic orders --replica-assignment "$replicas" >>"$home/tools.log"; }
send() { # how many, and their prefix
  tool org.apache.kafka.tools.VerifiableProducer --bootstrap-server "$(brokers)" --topic orders \
    --max-messages "$1" --value-prefix "$2" >"$home/sent"
  [ "$(grep -c producer_send_success "$home/sent")" = "$1" ] || { say "only a part of $1 was sent"; exit 2; }
}
consume() { # how many at most: their values, in the order that the group's only member reads them
  local from=${CLIENT_HOME:-$KAFKA_HOME}
  if [ "$client" = pipe ]; then # reads what there is, and ends; its output topic says what that was
    java_ "$from" org.apache.kafka.tools.TransactionalMessageCopier --broker-list "$(brokers)" \
      --input-topic orders --input-partition 0 --output-topic "$2" --consumer-group $group --group-mode \
      --transactional-id "pipe-$2" --transaction-size 50 --max-messages "$1" >>"$home/tools.log"
    tool org.apache.kafka.tools.consumer.ConsoleConsumer --bootstrap-server "$(brokers)" --topic "$2" \
      --from-beginning --timeout-ms 8000 --isolation-level read_committed
  else
    java_ "$from" org.apache.kafka.tools.consumer.ConsoleConsumer --bootstrap-server "$(brokers)" \
      --topic orders --group $group --from-beginning --max-messages "$1" --timeout-ms "$3" \
      --consumer-property "group.protocol=$client"
  fi
}
committed() { # the group's offset in orders/0, or none
  tool org.apache.kafka.tools.consumer.group.ConsumerGroupCommand --bootstrap-server "$(brokers)" --describe \
    --group $group | awk '$2 == "orders" {print $4; found = 1} END {if (!found) print "none"}'
}
coordinator() { topic --describe --topic __consumer_offsets | sed -n 's/.*Partition: 0.*Leader: \([0-9a-z]*\).*/\1/p'; }
until_() { # a condition, for at most 90 s
  local tries=0
  until "$@"; do [ $((tries += 1)) -lt 90 ] || { say "waited in vain: $*"; tail -5 "$home"/node-*.log >&2; exit 2; }; sleep 1; done
}
new_coordinator() { local now; now=$(coordinator) && [ -n "$now" ] && [ "$now" != none ] && { [ "$mode" = restart ] || [ "$now" != "$down" ]; }; }
has_coordinator() { coordinator | grep -q '[0-9]'; }
has_group() { committed >"$home/committed" && [ -s "$home/committed" ]; }

cluster=$(tool kafka.tools.StorageTool random-uuid)
for n in 100 1 2 3; do start $n & pids[$n]=$!; done
all_registered() { [ "$(topic --describe --topic probe 2>/dev/null | grep -c 'Isr: .*,.*,')" = 1 ]; }
until_ topic --create --if-not-exists --topic probe --replica-assignment 1:2:3 >>"$home/tools.log"
until_ all_registered
committed >/dev/null || true # makes __consumer_offsets
until_ has_coordinator
down=$(coordinator) coordinator=$down
# Its leader is another broker than the coordinator, or with LEADER=coordinator the same.
replicas=$((coordinator % 3 + 1)):$(((coordinator + 1) % 3 + 1)):$coordinator
[ "${LEADER:-}" != coordinator ] || replicas=$coordinator:$((coordinator % 3 + 1)):$(((coordinator + 1) % 3 + 1))
down=
create
send 100 1
consume 100 before 60000 >"$home/before"
say "a member of group $group read $(grep -c "^1\." "$home/before") messages; committed offset: $(committed)"
down=$coordinator
case $mode in
  none) down= ;;
  kill | later | restart) kill -9 "${pids[$down]}"; wait "${pids[$down]}" 2>/dev/null || true ;;
  frozen | slow) kill -STOP "${pids[$down]}" ;;
  *) echo "no such mode: $mode" >&2; exit 2 ;;
esac
say "the coordinator, broker $coordinator: $mode"
topic --delete --topic orders
say "topic orders is deleted"
if [ "$mode" = later ]; then
  until_ new_coordinator
  until_ has_group
  say "broker $(coordinator) is the coordinator; orders does not exist; committed offset: $(cat "$home/committed")"
fi
create
say "topic orders is created again"
[ "$mode" != slow ] || { sleep 4; kill -CONT "${pids[$down]}"; down=; say "broker $coordinator continues"; }
[ "$mode" != restart ] || { start "$down" & pids[$down]=$!; say "broker $coordinator is started again"; }
[ "$mode" = none ] || [ "$mode" = slow ] || until_ new_coordinator
[ "$mode" != restart ] || down=
until_ has_group
there=$(cat "$home/committed")
say "broker $(coordinator) is the coordinator; committed offset in orders/0: $there"
send 150 2
[ "$mode" != frozen ] || { sleep 10; kill -CONT "${pids[$down]}"; }
consume 150 after 20000 >"$home/after" || true
read=$(grep -c '^2\.' "$home/after" || true)
case $there in none | -) about="no offset of the old topic is there" ;; *) about="offset $there of the old topic is there" ;; esac
echo "RESULT kafka=$(version_of "$KAFKA_HOME") client=$(version_of "${CLIENT_HOME:-$KAFKA_HOME}") $mode $client${LEADER:+ leader=$LEADER}:" \
  "$about; read $read of 150, unseen $((150 - read))"
