package kaput;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** JSON as kaput writes and reads it: maps, lists, strings, numbers (Long or Double), booleans, null. */
final class Json {
    private final String text;
    private int at;

    private Json(String text) {
        this.text = text;
    }

    static Object parse(String text) {
        return new Json(text).value();
    }

    static String write(Object value) {
        if (value instanceof Map<?, ?> map) {
            List<String> parts = new ArrayList<>();
            map.forEach((key, each) -> parts.add(write(String.valueOf(key)) + ":" + write(each)));
            return "{" + String.join(",", parts) + "}";
        }
        if (value instanceof Iterable<?> list) {
            List<String> parts = new ArrayList<>();
            list.forEach(each -> parts.add(write(each)));
            return "[" + String.join(",", parts) + "]";
        }
        if (value == null || value instanceof Number || value instanceof Boolean) {
            return String.valueOf(value);
        }
        StringBuilder out = new StringBuilder("\"");
        for (char c : String.valueOf(value).toCharArray()) {
            out.append(c == '"' || c == '\\' ? "\\" + c : c < ' ' ? String.format("\\u%04x", (int) c) : "" + c);
        }
        return out.append('"').toString();
    }

    private Object value() {
        char c = next();
        switch (c) {
            case '{': {
                Map<String, Object> map = new LinkedHashMap<>();
                while (peek() != '}') {
                    skip(',');
                    next();
                    String key = string();
                    skip(':');
                    map.put(key, value());
                }
                at++;
                return map;
            }
            case '[': {
                List<Object> list = new ArrayList<>();
                while (peek() != ']') {
                    skip(',');
                    list.add(value());
                }
                at++;
                return list;
            }
            case '"':
                return string();
            default:
                int begin = --at;
                while (at < text.length() && ",]} \n".indexOf(text.charAt(at)) < 0) {
                    at++;
                }
                return word(text.substring(begin, at));
        }
    }

    private static Object word(String word) {
        switch (word) {
            case "true":
                return true;
            case "false":
                return false;
            case "null":
                return null;
            default:
                return word.matches("-?\\d+") ? (Object) Long.valueOf(word) : Double.valueOf(word);
        }
    }

    /** The string whose opening quote was just read. */
    private String string() {
        StringBuilder out = new StringBuilder();
        for (char c = text.charAt(at++); c != '"'; c = text.charAt(at++)) {
            if (c != '\\') {
                out.append(c);
                continue;
            }
            char escaped = text.charAt(at++);
            if (escaped == 'u') {
                out.append((char) Integer.parseInt(text.substring(at, at + 4), 16));
                at += 4;
            } else {
                int known = "bfnrt".indexOf(escaped);
                out.append(known < 0 ? escaped : "\b\f\n\r\t".charAt(known));
            }
        }
        return out.toString();
    }

    private char peek() {
        while (Character.isWhitespace(text.charAt(at))) {
            at++;
        }
        return text.charAt(at);
    }

    private char next() {
        char c = peek();
        at++;
        return c;
    }

    private void skip(char c) {
        if (peek() == c) {
            at++;
        }
    }
}
