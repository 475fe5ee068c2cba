package example;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import kaput.KaputLab;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringSerializer;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;

class OrdersTest {
    @RegisterExtension
    static KaputLab lab = KaputLab.with("--brokers", "3");

    @Test
    void noAcknowledgedOrderIsLostWhenTheLeaderDies() {
        lab.createTopic("orders", 1, Map.of("min.insync.replicas", 2));
        List<String> acked = Collections.synchronizedList(new ArrayList<>());
        Map<String, Object> settings = Map.of("bootstrap.servers", lab.bootstrapServers(), "acks", "all");
        try (var producer = new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer());
                var killed = lab.inject("kill", "leader-of orders/0")) {
            for (int n = 0; n < 1000; n++) {
                String key = "order-" + n;
                producer.send(new ProducerRecord<>("orders", key, "..."), (at, error) -> {
                    if (error == null) acked.add(key);
                });
            }
            producer.flush();
        }
        KaputLab.Count found = lab.count("orders", acked);
        assertEquals(1000, found.acked());
        assertEquals(0, found.lost(), found.lostExamples());
    }
}
