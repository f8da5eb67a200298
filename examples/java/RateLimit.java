import java.util.List;
import redis.clients.jedis.Jedis;
import redis.clients.jedis.util.SafeEncoder;

/** Three limits: a steady rate with bursts, so many in a second, so many at a time. */
public class RateLimit {
    static final Jedis redis =
            new Jedis(System.getenv().getOrDefault("REDIS_URL", "redis://127.0.0.1:6380"));

    /** The reply, with bytes as strings. */
    static Object call(String command, String... words) {
        return SafeEncoder.encodeObject(redis.sendCommand(() -> command.getBytes(), words));
    }

    /**
     * 0: go on; else in how many seconds to try again. `burst`: so many at once, after a rest.
     * CL.THROTTLE takes the number beyond the first: with 15 it allows 16.
     */
    static long waitSeconds(String key, int burst, int count, int period) {
        var reply = (List<?>) call("CL.THROTTLE", key, "" + (burst - 1), "" + count, "" + period);
        return reply.get(0).equals(1L) ? (long) reply.get(3) : 0;
    }

    /** Whether it is one of the first `most` of a period, which begins with its first. */
    static boolean allowed(String key, int most, int period) {
        String[] words = {key, "BYINT", "1", "UBOUND", "" + most, "EX", "" + period, "ENX"};
        return ((List<?>) call("INCREX", words)).get(1).equals(1L);
    }

    /** True: `name` may work, until it calls `end` or its time is over. False: `most` others do. */
    static boolean begin(String key, String name, int most, int seconds) {
        String[] words = {key, "MAXLEN", "" + most, "EX", "" + seconds, "MEMBERS", "1", name};
        return !call("SADDEX", words).equals(-1L);
    }

    /** 0: it took longer than its time, so there may have been too many. */
    static long end(String key, String name) {
        return redis.srem(key, name);
    }

    public static void main(String[] arguments) {
        int free = 0;
        while (waitSeconds("pay:ann", 15, 30, 3600) == 0) free++;
        System.out.println(free); // 15
        System.out.println(waitSeconds("pay:ann", 15, 30, 3600) <= 120); // true
        for (int n = 0; n < 3; n++) allowed("login", 3, 60);
        System.out.println(allowed("login", 3, 60)); // false
        System.out.println(begin("export", "a", 2, 60)); // true
        System.out.println(begin("export", "b", 2, 60)); // true
        System.out.println(begin("export", "c", 2, 60)); // false
        System.out.println(end("export", "a")); // 1
        System.out.println(begin("export", "c", 2, 60)); // true
        redis.close();
    }
}
