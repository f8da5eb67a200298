import java.util.List;
import java.util.UUID;
import redis.clients.jedis.Jedis;
import redis.clients.jedis.util.SafeEncoder;

/** All sessions of a user in one hash. Each ends half an hour after its last use. */
public class Sessions {
    static final String SECONDS = "1800";
    static final Jedis redis =
            new Jedis(System.getenv().getOrDefault("REDIS_URL", "redis://127.0.0.1:6380"));

    /** The reply, with bytes as strings. */
    static Object call(String command, String... words) {
        return SafeEncoder.encodeObject(redis.sendCommand(() -> command.getBytes(), words));
    }

    /** Returns the token. A user has five sessions: a sixth ends the one that would end first. */
    static String logIn(String user, String content) {
        String token = UUID.randomUUID().toString();
        call("HSETEX", "sessions:" + user, "MAXLEN", "5", "EVICT", "EX", SECONDS, "FIELDS", "1", token, content);
        return token;
    }

    /** The content of the session, which gets its full time again; null if it has ended. */
    static Object use(String user, String token) {
        return ((List<?>) call("HGETEX", "sessions:" + user, "EX", SECONDS, "FIELDS", "1", token)).get(0);
    }

    static long logOut(String user, String... tokens) {
        return redis.hdel("sessions:" + user, tokens);
    }

    static long logOutEverywhere(String user) {
        return redis.del("sessions:" + user);
    }

    public static void main(String[] arguments) {
        String phone = logIn("42", "phone"), tablet = logIn("42", "tablet");
        System.out.println(use("42", phone)); // phone
        System.out.println(logOut("42", tablet)); // 1
        System.out.println(use("42", tablet)); // null
        for (int n = 0; n < 5; n++) logIn("42", "another");
        System.out.println(redis.hlen("sessions:42")); // 5
        System.out.println(use("42", phone)); // null
        System.out.println(logOutEverywhere("42")); // 1
        redis.close();
    }
}
