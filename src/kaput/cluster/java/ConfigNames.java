import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.PrintStream;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.nio.charset.StandardCharsets;
import java.util.Collection;
import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.common.config.ConfigDef;

/**
 * Prints the settings that this version of Kafka knows, one `KIND NAME` per line; of the kind `dynamic` are
 * those of a broker that can change while it runs.
 *
 * <p>With the argument `values` it reads KIND, NAME, VALUE, each followed by a NUL, and prints `refused NUMBER
 * WHY` for each value, counted from 0, that Kafka's own definition refuses, and `checked COUNT` at the end.
 *
 * <p>A kind that a version lacks is left out. Compiled as KaputProducer.java is (`make java`).
 */
public final class ConfigNames {
    private static final String[][] KINDS = {
        {"broker", "kafka.server.KafkaConfig", "org.apache.kafka.server.config.AbstractKafkaConfig"},
        {"topic", "org.apache.kafka.storage.internals.log.LogConfig"},
        {"group", "org.apache.kafka.coordinator.group.GroupConfig"},
        {"producer", "org.apache.kafka.clients.producer.ProducerConfig"},
        {"consumer", "org.apache.kafka.clients.consumer.ConsumerConfig"},
        {
            "mirror",
            "org.apache.kafka.connect.mirror.MirrorMakerConfig",
            "org.apache.kafka.connect.mirror.MirrorConnectorConfig",
            "org.apache.kafka.connect.mirror.MirrorSourceConfig",
            "org.apache.kafka.connect.mirror.MirrorCheckpointConfig",
            "org.apache.kafka.connect.mirror.MirrorHeartbeatConfig",
            "org.apache.kafka.connect.mirror.MirrorClientConfig",
            "org.apache.kafka.connect.runtime.SourceConnectorConfig",
            "org.apache.kafka.connect.runtime.WorkerConfig",
            "org.apache.kafka.connect.runtime.distributed.DistributedConfig",
        },
    };

    private static final String CONNECT = "org.apache.kafka.connect.";

    private static final String[] DYNAMIC = {
        "org.apache.kafka.server.config.DynamicBrokerConfig", "kafka.server.DynamicBrokerConfig$",
    };

    private ConfigNames() {}

    public static void main(String[] args) throws Exception {
        System.setOut(new PrintStream(new FileOutputStream(FileDescriptor.out), true, StandardCharsets.UTF_8));
        if (args.length > 0) {
            checkValues(new String(System.in.readAllBytes(), StandardCharsets.UTF_8).split("\0", -1));
            return;
        }
        for (String[] kind : KINDS) {
            Set<String> names = new TreeSet<>();
            for (int i = 1; i < kind.length; i++) {
                addNames(kind[i], names);
            }
            for (String name : names) {
                System.out.println(kind[0] + " " + name);
            }
        }
        for (Object name : dynamic()) {
            System.out.println("dynamic " + name);
        }
    }

    private static void checkValues(String[] words) throws Exception {
        Map<String, Map<String, ConfigDef.ConfigKey>> definitions = new HashMap<>();
        for (String[] kind : KINDS) {
            Map<String, ConfigDef.ConfigKey> keys = new TreeMap<>();
            for (int i = 1; i < kind.length; i++) {
                addDefinitions(kind[i], keys);
            }
            definitions.put(kind[0], keys);
        }
        for (int i = 0; i + 2 < words.length; i += 3) {
            ConfigDef.ConfigKey key = definitions.get(words[i]).get(words[i + 1]);
            if (key == null) {
                continue;
            }
            try {
                Object value = ConfigDef.parseType(key.name, words[i + 2], key.type);
                if (key.validator != null) {
                    key.validator.ensureValid(key.name, value);
                }
            } catch (RuntimeException refused) {
                String why = String.valueOf(refused.getMessage()).replaceAll("\\s+", " ");
                System.out.println("refused " + i / 3 + " " + why);
            }
        }
        System.out.println("checked " + words.length / 3);
    }

    private static Set<?> dynamic() throws Exception {
        for (String className : DYNAMIC) {
            try {
                Class<?> config = Class.forName(className);
                Method modes = config.getMethod("dynamicConfigUpdateModes");
                boolean plain = Modifier.isStatic(modes.getModifiers());
                Object owner = plain ? null : config.getField("MODULE$").get(null);
                return new TreeSet<>(((Map<?, ?>) modes.invoke(owner)).keySet());
            } catch (ClassNotFoundException | NoSuchMethodException other) {
                // another version's
            }
        }
        return Set.of();
    }

    private static void addNames(String className, Set<String> names) throws Exception {
        try {
            Method named = Class.forName(className).getMethod("configNames");
            if (named.invoke(null) instanceof Collection<?> given) {
                given.forEach(name -> names.add(String.valueOf(name)));
                return;
            }
        } catch (ClassNotFoundException | NoSuchMethodException older) {
            // its definitions, if any, have them
        }
        Map<String, ConfigDef.ConfigKey> keys = new HashMap<>();
        addDefinitions(className, keys);
        names.addAll(keys.keySet());
    }

    private static void addDefinitions(String className, Map<String, ConfigDef.ConfigKey> keys) throws Exception {
        Class<?> config;
        try {
            config = Class.forName(className);
        } catch (ClassNotFoundException gone) {
            return;
        }
        for (Field field : config.getDeclaredFields()) {
            if (ConfigDef.class.isAssignableFrom(field.getType()) && Modifier.isStatic(field.getModifiers())) {
                field.setAccessible(true);
                keys.putAll(((ConfigDef) field.get(null)).configKeys());
            }
        }
        boolean ofConnect = className.startsWith(CONNECT);
        for (Method method : ofConnect ? config.getDeclaredMethods() : config.getMethods()) {
            boolean made = ConfigDef.class.isAssignableFrom(method.getReturnType());
            Object[] given = arguments(method);
            if (made && given != null && Modifier.isStatic(method.getModifiers())) {
                method.setAccessible(true);
                keys.putAll(((ConfigDef) method.invoke(null, given)).configKeys());
            }
        }
    }

    /** What a method takes: nothing, or the only one of a kind (SYSTEM), as of a worker; otherwise null. */
    private static Object[] arguments(Method method) throws Exception {
        if (method.getParameterCount() == 0) {
            return new Object[0];
        }
        try {
            Field only = method.getParameterTypes()[0].getDeclaredField("SYSTEM");
            only.setAccessible(true);
            return method.getParameterCount() == 1 ? new Object[] {only.get(null)} : null;
        } catch (NoSuchFieldException other) {
            return null;
        }
    }
}
