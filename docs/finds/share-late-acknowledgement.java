/* A member of a share group answers for records that it lost to another member long ago, and is told that all is well.

   java -cp 'KAFKA/libs/*' share-late-acknowledgement.java BOOTSTRAP accept|release|reject|renew [left|given-up]

   One topic, one partition, ten records. Member A is handed them and holds them beyond its lock. Member B is handed
   them, and accepts them. Then A acknowledges them. left (the control): B releases the first record, so the group has
   something left below the others. given-up: nobody acknowledges in time, and the delivery limit of 2 is reached.
   The lock is 15 s, or LOCK_MS (brokers with group.share.min.record.lock.duration.ms below that). */

import java.time.Duration;
import java.util.*;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.serialization.*;

public class ShareLateAcknowledgement {
    static final long LOCK_MS = Long.parseLong(System.getenv().getOrDefault("LOCK_MS", "15000"));
    static long start;

    public static void main(String[] args) throws Exception {
        String servers = args[0], mode = args.length > 2 ? args[2] : "";
        AcknowledgeType late = AcknowledgeType.valueOf(args[1].toUpperCase());
        boolean left = mode.equals("left"), givenUp = mode.equals("given-up");
        String topic = "late-" + System.currentTimeMillis(), group = topic + "-group";
        try (Admin admin = Admin.create(Map.<String, Object>of("bootstrap.servers", servers))) {
            admin.createTopics(List.of(new NewTopic(topic, 1, (short) 1))).all().get();
            List<AlterConfigOp> settings = new ArrayList<>(List.of(set("share.auto.offset.reset", "earliest"),
                set("share.record.lock.duration.ms", "" + LOCK_MS)));
            if (givenUp) settings.add(set("share.delivery.count.limit", "2"));
            admin.incrementalAlterConfigs(Map.of(new ConfigResource(ConfigResource.Type.GROUP, group), settings)).all().get();
        }
        try (var producer = new KafkaProducer<>(Map.<String, Object>of("bootstrap.servers", servers),
                new StringSerializer(), new StringSerializer())) {
            for (int i = 0; i < 10; i++) producer.send(new ProducerRecord<>(topic, "work " + i)).get();
        }
        start = System.currentTimeMillis();
        var a = member("A", servers, group, topic);
        var held = poll(a, "A");
        Thread.sleep(LOCK_MS + 600);
        var b = member("B", servers, group, topic);
        var again = poll(b, "B");
        if (givenUp) Thread.sleep(LOCK_MS + 600);
        for (var record : again)
            b.acknowledge(record, left && record.offset() == 0 ? AcknowledgeType.RELEASE : AcknowledgeType.ACCEPT);
        say("B acknowledges " + (left ? "(releases 0, accepts the others)" : "(ACCEPT)") + ": " + answer(b));
        for (var record : held) a.acknowledge(record, late);
        say("A acknowledges (" + late.name() + "), late: " + answer(a));
        if (late == AcknowledgeType.RENEW) {
            for (var record : poll(a, "A")) a.acknowledge(record, AcknowledgeType.ACCEPT);
            say("A acknowledges (ACCEPT): " + answer(a));
        }
        b.close();
        a.close();
    }

    static AlterConfigOp set(String name, String value) {
        return new AlterConfigOp(new ConfigEntry(name, value), AlterConfigOp.OpType.SET);
    }

    static KafkaShareConsumer<String, String> member(String name, String servers, String group, String topic) {
        var consumer = new KafkaShareConsumer<>(Map.<String, Object>of("bootstrap.servers", servers, "group.id", group,
            "client.id", name, "share.acknowledgement.mode", "explicit"), new StringDeserializer(), new StringDeserializer());
        consumer.subscribe(List.of(topic));
        return consumer;
    }

    static List<ConsumerRecord<String, String>> poll(KafkaShareConsumer<String, String> member, String name) {
        List<ConsumerRecord<String, String>> records = new ArrayList<>();
        for (int i = 0; i < 75 && records.isEmpty(); i++) member.poll(Duration.ofMillis(200)).forEach(records::add);
        StringBuilder text = new StringBuilder(name + " is handed");
        for (var r : records) text.append(" ").append(r.offset()).append(" (delivery ").append(r.deliveryCount().orElse((short) 0)).append(")");
        say(text.toString());
        return records;
    }

    static String answer(KafkaShareConsumer<String, String> member) {
        return member.commitSync().values().stream().map(error -> error.map(Object::toString).orElse("no error")).toList().toString();
    }

    static void say(String text) {
        System.out.printf(Locale.ROOT, "%6.2f s  %s%n", (System.currentTimeMillis() - start) / 1000.0, text);
    }
}
