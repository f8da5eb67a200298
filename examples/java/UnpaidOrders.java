import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import redis.clients.jedis.Jedis;
import redis.clients.jedis.StreamEntryID;
import redis.clients.jedis.exceptions.JedisDataException;
import redis.clients.jedis.params.XReadGroupParams;
import redis.clients.jedis.resps.StreamEntry;
import redis.clients.jedis.util.SafeEncoder;

/** At most three unpaid orders a user, for half an hour each. Late ones go to a stream. */
public class UnpaidOrders {
    static final String LATE = "orders:late";
    static final Jedis redis =
            new Jedis(System.getenv().getOrDefault("REDIS_URL", "redis://127.0.0.1:6380"));

    /** The reply, with bytes as strings. */
    static Object call(String command, String key, String... words) {
        String[] all = Stream.concat(Stream.of(key), Stream.of(words)).toArray(String[]::new);
        return SafeEncoder.encodeObject(redis.sendCommand(() -> command.getBytes(), all));
    }

    /** Rule and consumer group are stored in Redis: once is enough, and more does no harm. */
    static void setUp() {
        call("ONEXPIRE", "unpaid:*", "XADD", LATE, "MAXLEN", "~", "1000000");
        try {
            redis.xgroupCreate(LATE, "cancel", new StreamEntryID(), true);
        } catch (JedisDataException refused) {
            if (!refused.getMessage().startsWith("BUSYGROUP")) throw refused; // it is there already
        }
    }

    /** 1: placed, 0: there is an order of that name, -1: the user has three. */
    static Object place(String user, String order, String content, int milliseconds) {
        String[] options = {"FNX", "MAXLEN", "3", "PX", "" + milliseconds, "FIELDS", "1", order, content};
        return call("HSETEX", "unpaid:" + user, options);
    }

    /** False: it was too late, and the order is in the stream, or it was paid before. */
    static boolean pay(String user, String order) {
        return redis.hdel("unpaid:" + user, order) == 1;
    }

    interface Cancel {
        /** Returns whether to go on. */
        boolean cancel(String user, String order, String content);
    }

    /**
     * Calls `cancel` for each late order; first for those that this consumer had when it was killed.
     * An order is acknowledged when `cancel` returns true.
     */
    static void cancelLate(String consumer, Cancel each) {
        var start = new StreamEntryID();
        while (true) {
            var params = new XReadGroupParams().count(10).block(4000);
            var found = redis.xreadGroup("cancel", consumer, params, Map.of(LATE, start));
            if (found == null) continue;
            var entries = found.get(0).getValue();
            if (entries.isEmpty()) start = StreamEntryID.XREADGROUP_UNDELIVERED_ENTRY;
            for (StreamEntry entry : entries) {
                var late = entry.getFields();
                String user = late.get("key").substring("unpaid:".length());
                if (!each.cancel(user, late.get("element"), late.get("value"))) return;
                redis.xack(LATE, "cancel", entry.getID());
            }
        }
    }

    public static void main(String[] arguments) {
        setUp();
        for (String order : List.of("order1", "order2", "order3")) place("42", order, "seven", 1_800_000);
        System.out.println(place("42", "order4", "four", 1_800_000)); // -1
        System.out.println(pay("42", "order1")); // true
        System.out.println(pay("42", "order1")); // false
        System.out.println(place("42", "order4", "four", 50)); // 1
        cancelLate("consumer-1", (user, order, content) -> {
            System.out.println(user + " " + order + " " + content); // 42 order4 four
            return false;
        });
        System.out.println(pay("42", "order4")); // false
        redis.close();
    }
}
