import redis.clients.jedis.Jedis;
import redis.clients.jedis.util.SafeEncoder;

/** A flash sale: a hash has as many fields as there are items. An unpaid field expires. */
public class FlashSale {
    static final Jedis redis =
            new Jedis(System.getenv().getOrDefault("REDIS_URL", "redis://127.0.0.1:6380"));

    /** The reply, with bytes as strings. */
    static Object call(String command, String... words) {
        return SafeEncoder.encodeObject(redis.sendCommand(() -> command.getBytes(), words));
    }

    /** 1: reserved, 0: the buyer has one, -1: sold out, for now. */
    static Object reserve(String sale, String buyer, int items, int seconds) {
        String[] words = {sale, "FNX", "MAXLEN", "" + items, "EX", "" + seconds, "FIELDS", "1", buyer, ""};
        return call("HSETEX", words);
    }

    /** Before the money is taken. 1: sold, -1: sold before, -2: too late. */
    static Object pay(String sale, String buyer) {
        return call("HPERSISTFIELD", sale, buyer);
    }

    /** 1: given back, 0: its time was over. */
    static long giveBack(String sale, String buyer) {
        return redis.hdel(sale, buyer);
    }

    public static void main(String[] arguments) {
        String sale = "sale:7";
        for (String buyer : new String[] {"ann", "bob", "cy"}) reserve(sale, buyer, 3, 900);
        System.out.println(reserve(sale, "bob", 3, 900)); // 0
        System.out.println(reserve(sale, "dan", 3, 900)); // -1
        System.out.println(pay(sale, "ann")); // 1
        System.out.println(pay(sale, "ann")); // -1
        System.out.println(giveBack(sale, "bob")); // 1
        System.out.println(reserve(sale, "dan", 3, 900)); // 1
        call("HEXPIREFIELD", sale, "dan", "0"); // his time is over
        System.out.println(pay(sale, "dan")); // -2
        System.out.println(reserve(sale, "eve", 3, 900)); // 1
        redis.close();
    }
}
