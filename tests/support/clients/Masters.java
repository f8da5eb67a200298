import io.lettuce.core.KeyValue;
import io.lettuce.core.RedisClient;
import io.lettuce.core.TransactionResult;
import io.lettuce.core.api.sync.RedisCommands;
import io.lettuce.core.cluster.RedisClusterClient;
import io.lettuce.core.cluster.api.sync.RedisClusterCommands;
import io.lettuce.core.codec.StringCodec;
import io.lettuce.core.output.IntegerOutput;
import io.lettuce.core.protocol.CommandArgs;
import io.lettuce.core.pubsub.RedisPubSubAdapter;
import io.lettuce.core.pubsub.StatefulRedisPubSubConnection;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.Jedis;
import redis.clients.jedis.JedisPubSub;
import redis.clients.jedis.UnifiedJedis;

/**
 * Ordinary use of a proxy in front of several masters, while slots move:
 * java Masters.java CLIENT PORT ends with 0 if all replies are right.
 */
public class Masters {
    interface Client {
        String set(String key, String value);
        String get(String key);
        long call(String name, String key, String... rest);
    }

    static void same(Object found, Object wanted) {
        if (!String.valueOf(found).equals(String.valueOf(wanted))) {
            throw new AssertionError(found + " instead of " + wanted);
        }
    }

    static void readAndWrite(Client client) {
        for (int number = 0; number < 30; number++) {
            same(client.set("k:" + number, "" + number), "OK");
            same(client.get("k:" + number), number);
        }
        same(client.call("HSETEX", "h", "EX", "100", "FIELDS", "1", "f", "v"), 1);
        same(client.call("HTTLFIELD", "h", "f"), 100);
    }

    static void countWhileSlotsMove(Client client) {
        int own = 0;
        while (client.get("{moves}stop") == null) {
            client.call("INCR", "{moves}n");
            client.call("HSETEX", "{moves}h", "EX", "100", "FIELDS", "1", "f", "" + ++own);
        }
        same(client.get("{moves}n"), own);
    }

    static void jedis(UnifiedJedis jedis) throws Exception {
        Client client = new Client() {
            public String set(String key, String value) {
                return jedis.set(key, value);
            }

            public String get(String key) {
                return jedis.get(key);
            }

            public long call(String name, String key, String... rest) {
                String[] words = new String[rest.length + 1];
                words[0] = key;
                System.arraycopy(rest, 0, words, 1, rest.length);
                return (Long) jedis.sendCommand(key, () -> name.getBytes(), words);
            }
        };
        readAndWrite(client);
        CompletableFuture<String> heard = new CompletableFuture<>();
        CompletableFuture<Void> subscribed = new CompletableFuture<>();
        JedisPubSub listener = new JedisPubSub() {
            public void onSubscribe(String channel, int count) {
                subscribed.complete(null);
            }

            public void onMessage(String channel, String message) {
                heard.complete(message);
            }
        };
        Thread listening = new Thread(() -> jedis.subscribe(listener, "c"));
        listening.setDaemon(true);
        listening.start();
        subscribed.get();
        jedis.publish("c", "hello");
        same(heard.get(), "hello");
        CompletableFuture<List<String>> popped = CompletableFuture.supplyAsync(() -> jedis.blpop(30, "l"));
        jedis.rpush("l", "x");
        same(popped.get(), "[l, x]");
        countWhileSlotsMove(client);
    }

    static void jedisTransaction(Jedis jedis, Jedis other) {
        for (boolean changes : new boolean[] {false, true}) {
            jedis.watch("{t}n");
            if (changes) {
                other.set("{t}n", "7");
            }
            var transaction = jedis.multi();
            transaction.incr("{t}n");
            same(transaction.exec(), changes ? "null" : "[1]");
        }
    }

    static void lettuce(
            RedisClusterCommands<String, String> redis,
            RedisClusterCommands<String, String> waiting,
            StatefulRedisPubSubConnection<String, String> subscription)
            throws Exception {
        Client client = new Client() {
            public String set(String key, String value) {
                return redis.set(key, value);
            }

            public String get(String key) {
                return redis.get(key);
            }

            public long call(String name, String key, String... rest) {
                CommandArgs<String, String> words = new CommandArgs<>(StringCodec.UTF8).addKey(key);
                for (String word : rest) {
                    words.add(word);
                }
                return redis.dispatch(() -> name.getBytes(), new IntegerOutput<>(StringCodec.UTF8), words);
            }
        };
        readAndWrite(client);
        CompletableFuture<String> heard = new CompletableFuture<>();
        subscription.addListener(new RedisPubSubAdapter<>() {
            public void message(String channel, String message) {
                heard.complete(message);
            }
        });
        subscription.sync().subscribe("c");
        redis.publish("c", "hello");
        same(heard.get(), "hello");
        CompletableFuture<KeyValue<String, String>> popped =
                CompletableFuture.supplyAsync(() -> waiting.blpop(30, "l"));
        redis.rpush("l", "x");
        same(popped.get().getValue(), "x");
        countWhileSlotsMove(client);
    }

    static void lettuceTransaction(RedisCommands<String, String> redis, RedisCommands<String, String> other) {
        for (boolean changes : new boolean[] {false, true}) {
            redis.watch("{t}n");
            if (changes) {
                other.set("{t}n", "7");
            }
            redis.multi();
            redis.incr("{t}n");
            TransactionResult result = redis.exec();
            same(result.wasDiscarded(), changes);
        }
    }

    public static void main(String[] arguments) throws Exception {
        int port = Integer.parseInt(arguments[1]);
        String url = "redis://127.0.0.1:" + port;
        switch (arguments[0]) {
            case "Jedis" -> {
                jedisTransaction(new Jedis("127.0.0.1", port), new Jedis("127.0.0.1", port));
                jedis(redis.clients.jedis.RedisClient.create("127.0.0.1", port));
            }
            case "Jedis Cluster" ->
                jedis(redis.clients.jedis.RedisClusterClient.create(new HostAndPort("127.0.0.1", port)));
            case "Lettuce" -> {
                RedisClient client = RedisClient.create(url);
                lettuceTransaction(client.connect().sync(), client.connect().sync());
                lettuce(client.connect().sync(), client.connect().sync(), client.connectPubSub());
            }
            case "Lettuce Cluster" -> {
                RedisClusterClient client = RedisClusterClient.create(url);
                lettuce(client.connect().sync(), client.connect().sync(), client.connectPubSub());
            }
            default -> throw new IllegalArgumentException(arguments[0]);
        }
        System.exit(0);
    }
}
