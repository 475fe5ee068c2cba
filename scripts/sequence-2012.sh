#!/bin/sh
# The procedure of 2012, with Kafka's own console clients: number the messages, produce them while a broker is
# killed and started again, read everything back, look for gaps (docs/SEQUENCE.md).
#
#   scripts/sequence-2012.sh [--json]     brokers BROKERS (2), messages COUNT (20000) at RATE (1000) a second
#
# Exit status: that of `kaput sequence check`: 1 where something is missing, which is what this is about.
set -eu

BROKERS=${BROKERS:-2} COUNT=${COUNT:-20000} RATE=${RATE:-1000} KAPUT=${KAPUT:-kaput} NAME=${NAME:-sequence-2012}
DOWN_FOR=${DOWN_FOR:-8s} KILL_AFTER_S=${KILL_AFTER_S:-5}
export KAPUT_CLUSTER="$NAME"
scratch=$(mktemp -d)
trap '$KAPUT down --cluster "$NAME" >&2 || true; rm -rf "$scratch"' EXIT
trap 'exit 130' INT TERM HUP

# One replica of everything, as in 2012. A broker counts as dead after a second of silence.
$KAPUT up --detach --cluster "$NAME" --brokers "$BROKERS" --controllers 1 \
    --config broker.session.timeout.ms=1000 --config broker.heartbeat.interval.ms=250 >&2
$KAPUT tool topics --create --topic numbers --partitions "$BROKERS" --replication-factor 1 >&2

stored() { $KAPUT tool get-offsets --topic numbers | awk -F: '{ sum += $3 } END { print sum + 0 }'; }

# waits_for SECONDS COMMAND...: repeats it until it succeeds
waits_for() {
    tries=$1
    shift
    until "$@"; do
        [ $((tries -= 1)) -gt 0 ] || { echo "waited in vain: $*" >&2; exit 4; }
        sleep 1
    done
}

is_stored() { [ "$(stored)" -gt 0 ]; }

# The producer needs time to start: numbers generated before that would wait in the pipe.
numbers() {
    $KAPUT sequence generate --count 1
    waits_for 60 is_stored
    $KAPUT sequence generate --start 2 --count "$((COUNT - 1))" --rate "$RATE" | {
        read -r second # so does what generates them
        : >"$scratch/flowing"
        echo "$second"
        cat
    }
}

# Messages go to every broker in turn. The client of 2012 gave up at once what it could not send; today's does
# after half a second with these settings.
numbers | $KAPUT tool console-producer --topic numbers \
    --command-property partitioner.class=org.apache.kafka.clients.producer.RoundRobinPartitioner \
    --command-property acks=1 --command-property retries=0 --command-property linger.ms=0 \
    --command-property request.timeout.ms=500 --command-property delivery.timeout.ms=500 >/dev/null 2>&1 &
producer=$!
waits_for 300 test -e "$scratch/flowing"
sleep "$KILL_AFTER_S"
$KAPUT fault inject kill --target 'leader-of numbers/0' --for "$DOWN_FOR" --cluster "$NAME" >&2
wait "$producer"
$KAPUT fault heal --cluster "$NAME" >&2 || true # status 2 if it has already healed

$KAPUT tool console-consumer --topic numbers --from-beginning --max-messages "$(stored)" --timeout-ms 30000 \
    >"$scratch/printed" 2>/dev/null || true
$KAPUT sequence check "$scratch/printed" --expect "1..$COUNT" "$@"
