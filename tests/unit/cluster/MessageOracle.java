import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.util.HexFormat;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.common.requests.RequestHeader;

/**
 * Kafka's own classes as an oracle. Reads lines, and answers each with one: "encode API VERSION JSON" with the
 * whole request in hexadecimal, "decode API VERSION HEX" with the response in JSON (the header is not read),
 * "code NAME" with the number of an error. An exception's text begins with an exclamation mark.
 */
public class MessageOracle {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final String MESSAGES = "org.apache.kafka.common.message.";

    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = lines.readLine()) != null; ) {
            String answer;
            try {
                answer = answer(line.split(" ", 4));
            } catch (Exception problem) {
                answer = "! " + String.valueOf(problem.getCause() == null ? problem : problem.getCause()).replace('\n', ' ');
            }
            System.out.println(answer);
        }
    }

    private static String answer(String[] words) throws Exception {
        if (words[0].equals("code")) {
            return "" + Errors.valueOf(words[1]).code();
        }
        short version = Short.parseShort(words[2]);
        return words[0].equals("encode") ? encode(words[1], version, words[3]) : decode(words[1], version, words[3]);
    }

    private static String encode(String api, short version, String json) throws Exception {
        Object data = Class.forName(MESSAGES + api + "RequestDataJsonConverter")
            .getMethod("read", JsonNode.class, short.class).invoke(null, JSON.readTree(json), version);
        ApiMessage message = (ApiMessage) data;
        RequestHeader header = new RequestHeader(ApiKeys.forId(message.apiKey()), version, "me", 7);
        ByteBuffer head = MessageUtil.toByteBufferAccessor(header.data(), header.headerVersion()).buffer();
        ByteBuffer body = MessageUtil.toByteBufferAccessor(message, version).buffer();
        return HexFormat.of().formatHex(bytes(head)) + HexFormat.of().formatHex(bytes(body));
    }

    private static byte[] bytes(ByteBuffer buffer) {
        byte[] all = new byte[buffer.remaining()];
        buffer.get(all);
        return all;
    }

    private static String decode(String api, short version, String hex) throws Exception {
        Class<?> type = Class.forName(MESSAGES + api + "ResponseData");
        ByteBuffer buffer = ByteBuffer.wrap(HexFormat.of().parseHex(hex));
        Object data = type.getConstructor(org.apache.kafka.common.protocol.Readable.class, short.class)
            .newInstance(new ByteBufferAccessor(buffer), version);
        if (buffer.hasRemaining()) {
            throw new IllegalStateException(buffer.remaining() + " bytes are left");
        }
        return Class.forName(MESSAGES + api + "ResponseDataJsonConverter")
            .getMethod("write", type, short.class).invoke(null, data, version).toString();
    }
}
