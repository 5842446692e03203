import java.net.URI;
import java.net.URLDecoder;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.time.Duration;
import java.time.Instant;
import java.time.LocalDateTime;
import java.time.ZoneOffset;
import java.time.format.DateTimeFormatter;
import java.util.Base64;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;
import javax.security.auth.callback.Callback;
import javax.security.auth.callback.UnsupportedCallbackException;
import javax.security.auth.login.AppConfigurationEntry;
import org.apache.kafka.common.security.auth.AuthenticateCallbackHandler;
import org.apache.kafka.common.security.oauthbearer.OAuthBearerExtensionsValidatorCallback;
import org.apache.kafka.common.security.oauthbearer.OAuthBearerToken;
import org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallback;

/**
 * Stands in for the side of Amazon's brokers that checks a login by IAM, of which nothing is published but what clients
 * send: an address, signed by Signature Version 4. Written of its public description, without Amazon's libraries, and
 * told by the listener's login configuration which key, session and region are right.
 */
public class SignedTokens implements AuthenticateCallbackHandler {
    private static final String SERVICE = "kafka-cluster";
    private static final Set<String> UNSIGNED = Set.of("X-Amz-Signature", "User-Agent");
    private static final Duration LONGEST = Duration.ofMinutes(15);

    private String key;
    private String secret;
    private String session;
    private String region;

    @Override
    public void configure(Map<String, ?> configs, String mechanism, List<AppConfigurationEntry> login) {
        Map<String, ?> options = login.get(0).getOptions();
        key = (String) options.get("key");
        secret = (String) options.get("secret");
        session = (String) options.get("session");
        region = (String) options.get("region");
    }

    @Override
    public void handle(Callback[] callbacks) throws UnsupportedCallbackException {
        for (Callback callback : callbacks) {
            if (callback instanceof OAuthBearerValidatorCallback asked) {
                check(asked);
            } else if (callback instanceof OAuthBearerExtensionsValidatorCallback asked) {
                asked.inputExtensions().map().keySet().forEach(name -> asked.error(name, "none is expected"));
            } else {
                throw new UnsupportedCallbackException(callback);
            }
        }
    }

    private void check(OAuthBearerValidatorCallback asked) {
        try {
            String text = asked.tokenValue();
            URI address = new URI(new String(Base64.getUrlDecoder().decode(text), StandardCharsets.UTF_8));
            asked.token(new Accepted(text, key, signed(address)));
        } catch (Exception refusal) {
            asked.error("invalid_token", null, null);
        }
    }

    /** Returns the end of what an address allows; throws where it is not signed by the key, over, or for anything else. */
    private Instant signed(URI address) throws Exception {
        Map<String, String> raw = new TreeMap<>();
        for (String pair : address.getRawQuery().split("&")) {
            String[] parts = pair.split("=", 2);
            require(raw.put(parts[0], parts[1]) == null, "each name once");
        }
        Map<String, String> given = new TreeMap<>();
        raw.forEach((name, value) -> given.put(name, URLDecoder.decode(value, StandardCharsets.UTF_8)));
        String host = "kafka." + region + ".amazonaws.com";
        require(address.getScheme().equals("https") && address.getAuthority().equals(host), "host");
        require(address.getPath().isEmpty() || address.getPath().equals("/"), "path"); // Java's client sends none
        require(given.get("Action").equals("kafka-cluster:Connect"), "action");
        require(given.get("X-Amz-Algorithm").equals("AWS4-HMAC-SHA256"), "algorithm");
        require(given.get("X-Amz-SignedHeaders").equals("host"), "headers");
        require(given.get("X-Amz-Security-Token").equals(session), "session");
        require(!given.get("User-Agent").isEmpty(), "client");

        String time = given.get("X-Amz-Date");
        Instant begin = LocalDateTime.parse(time, DateTimeFormatter.ofPattern("yyyyMMdd'T'HHmmss'Z'")).toInstant(ZoneOffset.UTC);
        Duration life = Duration.ofSeconds(Long.parseLong(given.get("X-Amz-Expires")));
        require(life.compareTo(LONGEST) <= 0, "length of life");
        require(begin.isBefore(Instant.now().plusSeconds(300)) && begin.plus(life).isAfter(Instant.now()), "time");

        String day = time.substring(0, 8);
        String scope = String.join("/", day, region, SERVICE, "aws4_request");
        require(given.get("X-Amz-Credential").equals(key + "/" + scope), "credential");
        StringBuilder query = new StringBuilder();
        raw.forEach((name, value) -> {
            if (!UNSIGNED.contains(name)) {
                query.append(query.isEmpty() ? "" : "&").append(name).append('=').append(value);
            }
        });
        String asked = String.join("\n", "GET", "/", query, "host:" + host, "", "host", digest(""));
        String all = String.join("\n", "AWS4-HMAC-SHA256", time, scope, digest(asked));
        byte[] mac = ("AWS4" + secret).getBytes(StandardCharsets.UTF_8);
        for (String part : List.of(day, region, SERVICE, "aws4_request", all)) {
            mac = mac(mac, part);
        }
        byte[] right = HexFormat.of().formatHex(mac).getBytes(StandardCharsets.UTF_8);
        byte[] found = given.get("X-Amz-Signature").getBytes(StandardCharsets.UTF_8);
        require(MessageDigest.isEqual(right, found), "signature");
        return begin.plus(life);
    }

    private static void require(boolean isSo, String what) {
        if (!isSo) {
            throw new IllegalArgumentException(what);
        }
    }

    private static String digest(String text) throws Exception {
        byte[] bytes = text.getBytes(StandardCharsets.UTF_8);
        return HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest(bytes));
    }

    private static byte[] mac(byte[] secret, String text) throws Exception {
        Mac mac = Mac.getInstance("HmacSHA256");
        mac.init(new SecretKeySpec(secret, "HmacSHA256"));
        return mac.doFinal(text.getBytes(StandardCharsets.UTF_8));
    }

    @Override
    public void close() {}

    private record Accepted(String value, String principalName, Instant end) implements OAuthBearerToken {
        @Override
        public Set<String> scope() {
            return Set.of();
        }

        @Override
        public long lifetimeMs() {
            return end.toEpochMilli();
        }

        @Override
        public Long startTimeMs() {
            return null;
        }
    }
}
