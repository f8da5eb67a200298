import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import redis.clients.jedis.Jedis;
import redis.clients.jedis.JedisPool;
import redis.clients.jedis.exceptions.JedisException;
import redis.clients.jedis.util.SafeEncoder;

/**
 * A worker: takes tasks from a list, one at a time. Start as many as you like, where you like.
 * `LPUSH tasks mail:1` gives them a task. The name of a task must be its own.
 */
public class Worker {
    static final String TASKS = "tasks", BUSY = "tasks:busy", RESULTS = "tasks:results";
    static final int LEASE_S = 10, RENEW_S = 1, RETRY_S = 1, DAY_S = 86400;
    static final JedisPool pool =
            new JedisPool(System.getenv().getOrDefault("REDIS_URL", "redis://127.0.0.1:6380"));

    /** Yours. It may take as long as it likes, and throws if it fails. */
    static String work(String task) throws Exception {
        if (!task.startsWith("mail:")) throw new IllegalArgumentException("no such task");
        Thread.sleep(2000);
        return "sent";
    }

    /** The reply, with bytes as strings. */
    static Object call(String command, Object... words) {
        String[] arguments = Stream.of(words).map(String::valueOf).toArray(String[]::new);
        try (Jedis redis = pool.getResource()) {
            return SafeEncoder.encodeObject(redis.sendBlockingCommand(() -> command.getBytes(), arguments));
        }
    }

    /** A task whose lease ends goes back to the list, the fourth time to the dead letters. */
    static void setUp() {
        call("ONEXPIRE", BUSY, "RPUSH", TASKS, "MAX", 3, "ELSE", "tasks:dead");
    }

    /** The next task; null if there was none for two seconds. */
    static String lease() {
        return (String) call("LEASE", TASKS, BUSY, "EX", LEASE_S, "BLOCK", 2000);
    }

    /** 1, or -2: the lease has ended, so another worker has the task, or will have it. */
    static Object renew(String task, int seconds) {
        return call("SEXPIREMEMBER", BUSY, task, seconds);
    }

    static void tryToRenew(String task) {
        try {
            renew(task, LEASE_S);
        } catch (JedisException error) {
            System.out.println(error.getMessage()); // the next time may come early enough
        }
    }

    /** The fence: if several workers had the task, the first result counts. True: it is this one. */
    static boolean finish(String task, String result) {
        Object first = call("HSETEX", RESULTS, "FNX", "EX", DAY_S, "FIELDS", 1, task, result);
        call("SREM", BUSY, task);
        return first.equals(1L);
    }

    /** Works, and renews the lease meanwhile. */
    static String workOn(String task) throws Exception {
        var timer = Executors.newSingleThreadScheduledExecutor();
        timer.scheduleAtFixedRate(() -> tryToRenew(task), RENEW_S, RENEW_S, TimeUnit.SECONDS);
        try {
            return work(task);
        } finally {
            timer.shutdownNow();
        }
    }

    static void run(String task) {
        String result;
        try {
            var known = (String) call("HGET", RESULTS, task);
            result = known != null ? known : workOn(task);
        } catch (Exception error) {
            renew(task, RETRY_S); // it goes back to the list then
            System.out.println(task + " failed: " + error.getMessage());
            return;
        }
        System.out.println(task + (finish(task, result) ? " is done" : " was done"));
    }

    static volatile boolean stop;

    public static void main(String[] arguments) throws InterruptedException {
        Thread main = Thread.currentThread();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            stop = true;
            try {
                main.join();
            } catch (InterruptedException error) {
                return;
            }
        }));
        setUp();
        while (!stop) {
            try {
                String task = lease();
                if (task != null) run(task);
            } catch (JedisException error) { // the lease of a task ends by itself
                System.out.println(error.getMessage());
                Thread.sleep(1000);
            }
        }
    }
}
