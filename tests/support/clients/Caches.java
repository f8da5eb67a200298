import java.util.concurrent.TimeUnit;
import org.redisson.Redisson;
import org.redisson.client.codec.StringCodec;
import org.redisson.config.Config;

/** Writes an RMapCache and an RSetCache, for tests/operations/test_import_redisson.py. */
public class Caches {
    public static void main(String[] words) {
        Config config = new Config().setCodec(StringCodec.INSTANCE);
        config.useSingleServer().setAddress("redis://127.0.0.1:" + words[0]);
        var redisson = Redisson.create(config);
        var map = redisson.<String, String>getMapCache("carts");
        map.put("timed", "apple", 1, TimeUnit.DAYS);
        map.put("idle", "pear", 2, TimeUnit.DAYS, 1, TimeUnit.HOURS);
        map.put("always", "plum");
        var set = redisson.<String>getSetCache("visitors");
        set.add("ann", 1, TimeUnit.DAYS);
        set.add("bob");
        redisson.shutdown();
    }
}
