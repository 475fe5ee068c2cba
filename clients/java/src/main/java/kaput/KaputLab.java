package kaput;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.UncheckedIOException;
import java.io.Writer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.extension.AfterAllCallback;
import org.junit.jupiter.api.extension.BeforeAllCallback;
import org.junit.jupiter.api.extension.ExtensionContext;

/**
 * A real Kafka cluster that a test can break: `kaput serve` in a process of its own.
 *
 * <pre>
 * &#64;RegisterExtension
 * static KaputLab lab = KaputLab.with("--brokers", "3");
 * </pre>
 *
 * It starts before the first test of the class and ends after the last one; also with this process, however that
 * ends. Without JUnit: {@code try (KaputLab lab = KaputLab.with().start())}. Not for several threads at once.
 */
public final class KaputLab implements BeforeAllCallback, AfterAllCallback, AutoCloseable {
    private final List<String> arguments;
    private Process process;
    private BufferedReader answers;
    private Writer requests;
    private Map<String, Object> ready;
    private long id;

    private KaputLab(List<String> arguments) {
        this.arguments = arguments;
    }

    /** A cluster by the options of `kaput serve`. The program is KAPUT, a system property or variable, or `kaput`. */
    public static KaputLab with(String... options) {
        return new KaputLab(List.of(options));
    }

    /** Starts the cluster; returns when it is ready. */
    public KaputLab start() {
        String program = System.getProperty("KAPUT", System.getenv().getOrDefault("KAPUT", "kaput"));
        List<String> command = new ArrayList<>(List.of(program, "serve"));
        command.addAll(arguments);
        try {
            process = new ProcessBuilder(command).redirectError(ProcessBuilder.Redirect.INHERIT).start();
        } catch (IOException error) {
            throw new UncheckedIOException(program + " cannot be started: pip install kaput, or set KAPUT", error);
        }
        answers = new BufferedReader(new InputStreamReader(process.getInputStream(), StandardCharsets.UTF_8));
        requests = process.outputWriter(StandardCharsets.UTF_8);
        ready = map(read().get("ready"));
        return this;
    }

    /** HOST:PORT of every broker, for bootstrap.servers. */
    public String bootstrapServers() {
        return (String) ready.get("bootstrap_servers");
    }

    /** Returns when every partition has a leader and its full ISR. */
    public void createTopic(String name, int partitions, Map<String, ?> config) {
        call("create_topic", Map.of("name", name, "partitions", partitions, "config", config));
    }

    /** Injects a fault, confirmed to have taken effect; closing it heals it and waits for every broker. */
    public Fault inject(String fault, String target, Map<String, ?> options) {
        Map<String, Object> given = new LinkedHashMap<>(options);
        given.put("fault", fault);
        given.put("target", target);
        return new Fault(map(call("inject", given)));
    }

    /** As above, without options. */
    public Fault inject(String fault, String target) {
        return inject(fault, target, Map.of());
    }

    /** What a fresh reader finds of the messages with these keys, which were acknowledged to your producer. */
    public Count count(String topic, List<String> ackedKeys) {
        Map<String, Object> found = map(call("count", Map.of("topic", topic, "acked", ackedKeys)));
        return new Count(number(found, "acked"), number(found, "stored"), number(found, "lost"),
            number(found, "duplicates"), String.valueOf(found.get("lost_examples")));
    }

    /** Any request of docs/OTHER_LANGUAGES.md. Throws KaputError with kaput's sentence. */
    public Object call(String request, Map<String, ?> arguments) {
        Map<String, Object> line = new LinkedHashMap<>(arguments);
        line.put("do", request);
        line.put("id", ++id);
        try {
            requests.write(Json.write(line) + "\n");
            requests.flush();
        } catch (IOException error) {
            throw new KaputError("kaput has ended; its last words are on stderr", "lab");
        }
        Map<String, Object> answer = read();
        if (answer.containsKey("error")) {
            throw new KaputError((String) answer.get("error"), (String) answer.get("kind"));
        }
        return answer.get("result");
    }

    @Override
    public void beforeAll(ExtensionContext context) {
        start();
    }

    @Override
    public void afterAll(ExtensionContext context) {
        close();
    }

    /** Ends the cluster. */
    @Override
    public void close() {
        try {
            requests.close();
            if (!process.waitFor(60, TimeUnit.SECONDS)) {
                process.destroyForcibly();
            }
        } catch (IOException | InterruptedException error) {
            process.destroy();
        }
    }

    private Map<String, Object> read() {
        try {
            String line = answers.readLine();
            if (line == null) {
                throw new KaputError("kaput has ended; its last words are on stderr", "lab");
            }
            return map(Json.parse(line));
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    @SuppressWarnings("unchecked")
    private static Map<String, Object> map(Object value) {
        return (Map<String, Object>) value;
    }

    private static long number(Map<String, Object> of, String key) {
        return (Long) of.get(key);
    }

    /** What became of acknowledged messages. */
    public record Count(long acked, long stored, long lost, long duplicates, String lostExamples) {}

    /** kaput's sentence; kind: usage, fault (not confirmed), or lab (nothing to judge). */
    public static final class KaputError extends RuntimeException {
        public final String kind;

        KaputError(String message, String kind) {
            super(message);
            this.kind = kind;
        }
    }

    /** An active fault. */
    public final class Fault implements AutoCloseable {
        private final Map<String, Object> injected;

        private Fault(Map<String, Object> injected) {
            this.injected = injected;
        }

        /** What shows that it took effect. */
        public String proof() {
            return (String) injected.get("proof");
        }

        @Override
        public void close() {
            call("heal", Map.of("fault", injected.get("id")));
        }
    }
}
