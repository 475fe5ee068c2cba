/* A member with group.protocol=consumer joins a classic group that has no generation yet, and fails for good.

   java -cp 'KAFKA/libs/*' upgrade-before-first-generation.java BOOTSTRAP MODE [retry|resubscribe]

   One topic, four partitions, forty records. Member A is classic. Member B, group.protocol=consumer, starts when
   the group is, by MODE:

   joining   preparing its first rebalance: for group.initial.rebalance.delay.ms (3 s) after A has joined
   emptied   doing so again: A had joined and left, and is back
   mixed     doing so again: A and a member like B had joined and left, and A is back
   syncing   completing its first rebalance: the leader's assignor takes 3 s
   stable    stable (the control)
   later     preparing a later rebalance: a classic member D joins, and A is 3 s late (a control)

   B polls, whatever poll() throws, for POLL_MS (15000), and on until it owns something (a minute more at most) if
   poll() has not thrown. When poll() throws: with retry, B is closed and made again, as by a supervisor; with
   resubscribe, it calls unsubscribe() and subscribe(). Then a member C joins with B's settings, until it owns
   something. Needs Kafka's client 4.0 or newer. */

import java.time.Duration;
import java.util.*;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.*;
import org.apache.kafka.common.serialization.*;

public class UpgradeBeforeFirstGeneration {
    static final long POLL_MS = Long.parseLong(System.getenv().getOrDefault("POLL_MS", "15000"));
    static final Map<String, String> members = new ConcurrentHashMap<>();
    static volatile boolean late, failed;
    static long start = System.currentTimeMillis();
    static String servers, topic, group;

    public static class SlowAssignor extends RangeAssignor {
        @Override public GroupAssignment assign(Cluster metadata, GroupSubscription subscriptions) {
            sleep(3000);
            return super.assign(metadata, subscriptions);
        }
    }

    public static void main(String[] args) throws Exception {
        servers = args[0];
        topic = "upgrade-" + start;
        group = topic + "-group";
        String mode = args[1];
        AtomicBoolean first = new AtomicBoolean(), end = new AtomicBoolean(), endOfB = new AtomicBoolean();
        try (Admin admin = Admin.create(Map.<String, Object>of("bootstrap.servers", servers))) {
            admin.createTopics(List.of(new NewTopic(topic, 4, (short) 1))).all().get();
            produce();
            var b = consumer("B", "consumer", RangeAssignor.class);
            start = System.currentTimeMillis();
            Class<?> assignor = mode.equals("syncing") ? SlowAssignor.class : RangeAssignor.class;
            boolean again = mode.equals("emptied") || mode.equals("mixed");
            Thread a = polling("A", consumer("A", "classic", assignor), again ? first : end, "");
            if (again) {
                await(admin, GroupState.STABLE);
                List<Thread> before = new ArrayList<>(List.of(a));
                if (mode.equals("mixed")) {
                    before.add(polling("B", consumer("B", "consumer", assignor), first, ""));
                    until(() -> owns("B"));
                }
                say("the group: " + described(admin));
                first.set(true);
                for (Thread each : before) each.join();
                await(admin, GroupState.EMPTY);
                a = polling("A", consumer("A", "classic", assignor), end, "");
            }
            await(admin, switch (mode) {
                case "stable", "later" -> GroupState.STABLE;
                case "syncing" -> GroupState.COMPLETING_REBALANCE;
                default -> GroupState.PREPARING_REBALANCE;
            });
            List<Thread> others = new ArrayList<>(List.of(a));
            if (mode.equals("later")) {
                late = true;
                others.add(polling("D", consumer("D", "classic", assignor), end, ""));
                await(admin, GroupState.PREPARING_REBALANCE);
            }
            others.add(polling("B", b, endOfB, args.length > 2 ? args[2] : ""));
            if (late) sleep(3000);
            late = false;
            sleep(POLL_MS);
            until(() -> failed || owns("B"));
            say("the group: " + described(admin) + "; what members have: " + new TreeMap<>(members));
            await(admin, GroupState.STABLE);
            others.add(polling("C", consumer("C", "consumer", RangeAssignor.class), end, ""));
            until(() -> owns("C"));
            say("the group: " + described(admin) + "; what members have: " + new TreeMap<>(members));
            for (AtomicBoolean each : List.of(endOfB, end)) each.set(true);
            for (Thread each : others) each.join();
        }
    }

    /** Polls until `end`; a line for each change, and for each answer of poll() unlike the one before. */
    static Thread polling(String name, KafkaConsumer<String, String> member, AtomicBoolean end, String remedy) {
        members.put(name, "[]");
        Thread thread = new Thread(() -> {
            var consumer = member;
            String last = "";
            subscribe(name, consumer);
            while (!end.get()) {
                while (late && name.equals("A")) sleep(50);
                String answer;
                try {
                    int count = consumer.poll(Duration.ofMillis(200)).count();
                    answer = count > 0 ? "poll() returns records" : "poll() returns nothing";
                } catch (RuntimeException error) {
                    answer = "poll() throws " + error;
                    failed = true;
                    if (!answer.equals(last)) say(name + ": " + answer);
                    last = answer;
                    if (remedy.equals("retry")) {
                        consumer.close();
                        consumer = consumer(name, "consumer", RangeAssignor.class);
                    }
                    if (remedy.equals("resubscribe")) consumer.unsubscribe();
                    if (!remedy.isEmpty()) subscribe(name, consumer);
                }
                if (!answer.equals(last)) say(name + ": " + answer);
                last = answer;
            }
            try {
                consumer.close();
            } catch (RuntimeException error) {
                say(name + ": close() throws " + error);
            }
        });
        thread.start();
        return thread;
    }

    static void subscribe(String name, KafkaConsumer<String, String> consumer) {
        say(name + " joins");
        consumer.subscribe(List.of(topic), new ConsumerRebalanceListener() {
            public void onPartitionsAssigned(Collection<TopicPartition> partitions) { has(name, consumer, "is assigned " + numbers(partitions)); }
            public void onPartitionsRevoked(Collection<TopicPartition> partitions) { say(name + " is revoked " + numbers(partitions)); members.put(name, "none"); }
            public void onPartitionsLost(Collection<TopicPartition> partitions) { say(name + " has lost " + numbers(partitions)); members.put(name, "none"); }
        });
    }

    static void has(String name, KafkaConsumer<String, String> consumer, String text) {
        say(name + " " + text);
        members.put(name, numbers(consumer.assignment()));
    }

    static String numbers(Collection<TopicPartition> partitions) {
        return partitions.stream().map(TopicPartition::partition).sorted().toList().toString();
    }

    static KafkaConsumer<String, String> consumer(String name, String protocol, Class<?> assignor) {
        Map<String, Object> settings = new HashMap<>(Map.of("bootstrap.servers", servers, "group.id", group, "client.id", name,
            "group.protocol", protocol, "auto.offset.reset", "earliest"));
        if (protocol.equals("classic")) settings.put("partition.assignment.strategy", List.of(assignor));
        return new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer());
    }

    static void produce() throws Exception {
        try (var producer = new KafkaProducer<>(Map.<String, Object>of("bootstrap.servers", servers),
                new StringSerializer(), new StringSerializer())) {
            for (int i = 0; i < 40; i++) producer.send(new ProducerRecord<>(topic, i % 4, "key", "record " + i)).get();
        }
    }

    static boolean owns(String name) {
        return members.getOrDefault(name, "[]").matches("\\[\\d.*");
    }

    static void until(java.util.function.BooleanSupplier condition) {
        for (int i = 0; i < 600 && !condition.getAsBoolean(); i++) sleep(100);
    }

    static void await(Admin admin, GroupState wanted) throws Exception {
        while (state(admin) != wanted) sleep(50);
        say("the group is " + wanted);
    }

    static GroupState state(Admin admin) throws Exception {
        try {
            return admin.describeConsumerGroups(List.of(group)).all().get().get(group).groupState();
        } catch (java.util.concurrent.ExecutionException error) {
            return GroupState.DEAD; // not there yet
        }
    }

    static String described(Admin admin) throws Exception {
        var group = admin.describeConsumerGroups(List.of(UpgradeBeforeFirstGeneration.group)).all().get().values().iterator().next();
        return group.type() + ", " + group.groupState() + ", members " + group.members().stream().map(MemberDescription::clientId).sorted().toList();
    }

    static void sleep(long ms) {
        try {
            Thread.sleep(ms);
        } catch (InterruptedException error) {
            throw new RuntimeException(error);
        }
    }

    static synchronized void say(String text) {
        System.out.printf(Locale.ROOT, "%6.2f s  %s%n", (System.currentTimeMillis() - start) / 1000.0, text);
    }
}
