import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.util.Collection;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import org.apache.kafka.common.config.ConfigDef;

/**
 * Prints the settings that this version of Kafka knows, one `KIND NAME` per line; of the kind `dynamic` are
 * those of a broker that can change while it runs.
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
    };

    private static final String[] DYNAMIC = {
        "org.apache.kafka.server.config.DynamicBrokerConfig", "kafka.server.DynamicBrokerConfig$",
    };

    private ConfigNames() {}

    public static void main(String[] args) throws Exception {
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
        Class<?> config;
        try {
            config = Class.forName(className);
        } catch (ClassNotFoundException gone) {
            return;
        }
        try {
            Method named = config.getMethod("configNames");
            if (named.invoke(null) instanceof Collection<?> given) {
                given.forEach(name -> names.add(String.valueOf(name)));
                return;
            }
        } catch (NoSuchMethodException older) {
            // its definitions have them
        }
        for (Field field : config.getDeclaredFields()) {
            if (ConfigDef.class.isAssignableFrom(field.getType()) && Modifier.isStatic(field.getModifiers())) {
                field.setAccessible(true);
                names.addAll(((ConfigDef) field.get(null)).names());
            }
        }
        for (Method method : config.getMethods()) {
            boolean plain = method.getParameterCount() == 0 && Modifier.isStatic(method.getModifiers());
            if (plain && ConfigDef.class.isAssignableFrom(method.getReturnType())) {
                names.addAll(((ConfigDef) method.invoke(null)).names());
            }
        }
    }
}
