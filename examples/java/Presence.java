import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import redis.clients.jedis.Jedis;
import redis.clients.jedis.JedisPubSub;
import redis.clients.jedis.util.SafeEncoder;

/** Users seen within the last minute, with a message when one has left. */
public class Presence {
    static final String URL = System.getenv().getOrDefault("REDIS_URL", "redis://127.0.0.1:6380");
    static final Jedis redis = new Jedis(URL);

    /** The reply, with bytes as strings. */
    static Object call(String command, String... words) {
        return SafeEncoder.encodeObject(redis.sendCommand(() -> command.getBytes(), words));
    }

    /** Once: the rule is stored in Redis. */
    static void setUp() {
        call("ONEXPIRE", "online", "PUBLISH", "presence:left");
    }

    /** 1 if the user has just come. */
    static Object seen(String user, int milliseconds) {
        return call("SADDEX", "online", "PX", "" + milliseconds, "MEMBERS", "1", user);
    }

    /** The users who leave from now on. The first entry says that it has begun. */
    static BlockingQueue<String> left() {
        var users = new LinkedBlockingQueue<String>();
        var subscriber = new JedisPubSub() {
            @Override
            public void onSubscribe(String channel, int count) {
                users.add("subscribed");
            }

            @Override
            public void onMessage(String channel, String user) {
                users.add(user);
            }
        };
        var thread = new Thread(() -> new Jedis(URL).subscribe(subscriber, "presence:left"));
        thread.setDaemon(true);
        thread.start();
        return users;
    }

    public static void main(String[] arguments) throws InterruptedException {
        setUp();
        var leaving = left();
        System.out.println(leaving.take()); // subscribed
        System.out.println(seen("ann", 60_000)); // 1
        System.out.println(seen("ann", 60_000)); // 0
        System.out.println(seen("bob", 50)); // 1
        System.out.println(leaving.take()); // bob
        System.out.println(redis.smembers("online")); // [ann]
        redis.close();
    }
}
