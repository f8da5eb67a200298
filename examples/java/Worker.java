import java.util.List;
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

    /** Of a task. The token is that of this lease: nobody else's is renewed or ended with it. */
    static class Lease {
        final String task;
        volatile Object token;

        Lease(List<?> leased) {
            task = (String) leased.get(0);
            token = leased.get(1);
        }

        /** If the lease is over, another worker has the task, or will have it. */
        void renew(int seconds) {
            Object renewed = call("RENEW", BUSY, token, task, "EX", seconds);
            if (renewed != null) token = renewed;
        }

        void tryToRenew() {
            try {
                renew(LEASE_S);
            } catch (JedisException error) {
                System.out.println(error.getMessage()); // the next time may come early enough
            }
        }

        /** Works, and renews the lease meanwhile. */
        String work() throws Exception {
            var timer = Executors.newSingleThreadScheduledExecutor();
            timer.scheduleAtFixedRate(this::tryToRenew, RENEW_S, RENEW_S, TimeUnit.SECONDS);
            try {
                return Worker.work(task);
            } finally {
                timer.shutdown();
                timer.awaitTermination(LEASE_S, TimeUnit.SECONDS); // the last one changes the token
            }
        }

        /** The fence: if several workers had it, the first result counts. True: it is this one. */
        boolean finish(String result) {
            Object first = call("HSETEX", RESULTS, "FNX", "EX", DAY_S, "FIELDS", 1, task, result);
            call("UNLEASE", BUSY, token, task);
            return first.equals(1L);
        }

        void run() {
            String result;
            try {
                var known = (String) call("HGET", RESULTS, task);
                result = known != null ? known : work();
            } catch (Exception error) {
                renew(RETRY_S); // it goes back to the list then
                System.out.println(task + " failed: " + error.getMessage());
                return;
            }
            System.out.println(task + (finish(result) ? " is done" : " was done"));
        }
    }

    /** Of the next task; null if there was none for two seconds. */
    static Lease lease() {
        Object leased = call("LEASE", TASKS, BUSY, "EX", LEASE_S, "BLOCK", 2000, "TOKEN");
        return leased == null ? null : new Lease((List<?>) leased);
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
                Lease leased = lease();
                if (leased != null) leased.run();
            } catch (JedisException error) { // the lease of a task ends by itself
                System.out.println(error.getMessage());
                Thread.sleep(1000);
            }
        }
    }
}
