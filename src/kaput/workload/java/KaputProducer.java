import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Base64;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.InvalidRecordException;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.errors.AuthorizationException;
import org.apache.kafka.common.errors.InvalidRequiredAcksException;
import org.apache.kafka.common.errors.NotEnoughReplicasException;
import org.apache.kafka.common.errors.RecordTooLargeException;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Kafka's own producer under the protocol of docs/ADDING_A_CLIENT.md: sends what it reads from stdin, and
 * prints what became of it as soon as the client says so. Numbers, times and evidence are kaput's.
 *
 * <p>Runs on a Java without a compiler: KaputProducer.class is kept beside this file (`make java`), and a test
 * compares the two.
 */
public final class KaputProducer {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final PrintStream OUT = new PrintStream(new FileOutputStream(FileDescriptor.out));
    private static final long PATIENCE_MS = 60_000; // for retries of one call to the coordinator

    private final Properties settings = new Properties();
    private final String topic;
    private final Thread main = Thread.currentThread();
    private final Set<Long> awaited = ConcurrentHashMap.newKeySet(); // whose outcome has not been printed
    private KafkaProducer<byte[], byte[]> client;
    private boolean sending;

    private KaputProducer(JsonNode start) throws IOException {
        start.get("config").properties().forEach(one -> set(one.getKey(), one.getValue()));
        set("acks", start.get("acks"));
        set("enable.idempotence", start.get("idempotence"));
        if (start.has("transactional_id")) set("transactional.id", start.get("transactional_id"));
        connectTo(start);
        topic = start.get("topic").asText();
    }

    public static void main(String[] none) throws IOException {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        try {
            KaputProducer producer = new KaputProducer(JSON.readTree(lines.readLine()));
            producer.open();
            producer.client.partitionsFor(producer.topic); // so that the first send is not a cold one
            String library = "kafka-clients " + version();
            say(JSON.createObjectNode().put("ready", true).put("library", library).toString());
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                producer.follow(JSON.readTree(line));
            }
            producer.client.close();
        } catch (KafkaException error) {
            System.err.println(text(error));
            System.exit(1);
        }
    }

    private void follow(JsonNode line) throws IOException {
        if (line.has("seq")) {
            send(line);
        } else if (line.has("begin")) {
            begin();
        } else if (line.has("end")) {
            end(line.get("end").asText().equals("commit"));
        } else if (line.has("move")) {
            client.close(Duration.ZERO); // what is not answered yet is unknown
            connectTo(line.get("move"));
            open();
            say("{\"moved\": true}");
        }
    }

    private void connectTo(JsonNode place) throws IOException {
        if (place.has("client_properties")) {
            try (InputStream file = new FileInputStream(place.get("client_properties").asText())) {
                settings.load(file);
            }
        }
        set("bootstrap.servers", place.get("bootstrap_servers"));
    }

    private void set(String name, JsonNode value) {
        settings.setProperty(name, value.asText());
    }

    private void open() {
        client = new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer());
        if (settings.containsKey("transactional.id")) insist(client::initTransactions);
    }

    private void send(JsonNode line) {
        long seq = line.get("seq").asLong();
        JsonNode key = line.get("key"), partition = line.get("partition");
        ProducerRecord<byte[], byte[]> record = new ProducerRecord<>(
            topic,
            partition == null ? null : partition.asInt(),
            key.isNull() ? null : key.asText().getBytes(StandardCharsets.UTF_8),
            Base64.getDecoder().decode(line.get("payload").asText()));
        awaited.add(seq);
        sending = true;
        try {
            client.send(record, (place, error) -> answer(seq, place, error));
        } catch (RuntimeException error) {
            // In a transaction that cannot go on, the client refuses what it has put into its buffer already:
            // then it answers as well, before this or after it.
            if (awaited.remove(seq)) refuse(seq, settings.containsKey("transactional.id") ? "unknown" : "failed", error);
        } finally {
            sending = false;
        }
    }

    private void answer(long seq, RecordMetadata place, Exception error) {
        if (!awaited.remove(seq)) return;
        if (error == null) {
            String offset = place.hasOffset() ? ", \"offset\": " + place.offset() : "";
            say("{\"seq\": " + seq + ", \"outcome\": \"acked\", \"partition\": " + place.partition() + offset + "}");
            return;
        }
        // Told by its own caller, within send: the record never got into the buffer.
        boolean notTaken = sending && Thread.currentThread() == main;
        refuse(seq, notTaken || definite(error) ? "failed" : "unknown", error);
    }

    /** Whether a broker refused it before it appended anything. With retries an earlier try may be written. */
    private boolean definite(Exception error) {
        return "0".equals(settings.getProperty("retries"))
            && (error instanceof AuthorizationException
                || error instanceof InvalidRecordException
                || error instanceof InvalidRequiredAcksException
                || error instanceof NotEnoughReplicasException
                || error instanceof RecordTooLargeException);
    }

    private static void refuse(long seq, String outcome, Exception error) {
        say(JSON.createObjectNode().put("seq", seq).put("outcome", outcome).put("error", text(error)).toString());
    }

    private void begin() {
        try {
            client.beginTransaction();
        } catch (RuntimeException error) {
            // What is sent now is refused, and the end of the transaction fails: nothing is lost by going on.
            System.err.println(text(error));
        }
    }

    /** Commits or aborts, and says which; a client that can do neither is replaced. */
    private void end(boolean commit) {
        ObjectNode said = JSON.createObjectNode().put("transaction", "unknown");
        try {
            if (commit && committed(said)) {
                said.put("transaction", "committed");
            } else {
                insist(client::abortTransaction);
                said.put("transaction", "aborted");
            }
            say(said.toString());
        } catch (RuntimeException error) {
            client.close(Duration.ZERO);
            open();
            // Letting this client in, the coordinator has aborted what was open, unless a commit was under way.
            if (!commit) said.put("transaction", "aborted");
            say(said.put("error", text(error)).toString());
        }
    }

    /** False: the transaction must be aborted instead. */
    private boolean committed(ObjectNode said) {
        try {
            insist(client::commitTransaction);
            return true;
        } catch (TimeoutException error) {
            throw error; // it may be committed by now
        } catch (KafkaException error) {
            said.put("error", text(error));
            return false;
        }
    }

    /** Retries a call that timed out, which is how Kafka wants it; the same outcome is asked for each time. */
    private static void insist(Runnable call) {
        long limit = System.nanoTime() + PATIENCE_MS * 1_000_000;
        while (true) {
            try {
                call.run();
                return;
            } catch (TimeoutException error) {
                if (System.nanoTime() > limit) throw error;
            }
        }
    }

    /** From the jar's own properties: the class that reads them has another package since Kafka 4.4. */
    private static String version() throws IOException {
        Properties found = new Properties();
        try (InputStream file = KafkaProducer.class.getResourceAsStream("/kafka/kafka-version.properties")) {
            if (file != null) found.load(file);
        }
        return found.getProperty("version", "unknown");
    }

    private static String text(Throwable error) {
        Throwable cause = error.getCause();
        String why = error.getClass().getSimpleName() + ": " + error.getMessage();
        return cause == null ? why : why + " (" + cause.getClass().getSimpleName() + ": " + cause.getMessage() + ")";
    }

    private static void say(String line) {
        byte[] bytes = (line + "\n").getBytes(StandardCharsets.UTF_8);
        OUT.write(bytes, 0, bytes.length); // one write of the system, which PrintStream keeps whole
        OUT.flush();
    }
}
