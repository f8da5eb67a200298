import java.util.Set;
import java.util.stream.Stream;
import redis.clients.jedis.Jedis;
import redis.clients.jedis.params.SetParams;

/** A cache with tags. An entry leaves its tags when it expires, so tags do not grow for ever. */
public class Tags {
    static final Jedis redis =
            new Jedis(System.getenv().getOrDefault("REDIS_URL", "redis://127.0.0.1:6380"));

    static void put(String entry, String value, int seconds, String... tags) {
        try (var together = redis.multi()) {
            together.set("cache:" + entry, value, new SetParams().ex(seconds));
            for (String tag : tags) {
                together.sendCommand(() -> "SADDEX".getBytes(), "tag:" + tag, "" + seconds, entry);
            }
            together.exec();
        }
    }

    static String get(String entry) {
        return redis.get("cache:" + entry);
    }

    /** The entries that have both tags. */
    static Set<String> withTags(String tag, String other) {
        return redis.sinter("tag:" + tag, "tag:" + other);
    }

    /** Deletes the entries with this tag, and says how many there were. */
    static long invalidate(String tag) {
        String[] entries = redis.smembers("tag:" + tag).toArray(String[]::new);
        if (entries.length == 0) return 0;
        try (var together = redis.multi()) {
            var deleted = together.del(Stream.of(entries).map(entry -> "cache:" + entry).toArray(String[]::new));
            together.srem("tag:" + tag, entries);
            together.exec();
            return deleted.get();
        }
    }

    public static void main(String[] arguments) {
        put("1", "Ruby for all", 3600, "ruby");
        put("2", "Ruby on the web", 60, "ruby", "web");
        System.out.println(withTags("ruby", "web")); // [2]
        System.out.println(invalidate("web")); // 1
        System.out.println(get("2")); // null
        System.out.println(get("1")); // Ruby for all
        System.out.println(withTags("ruby", "web")); // []
        redis.close();
    }
}
