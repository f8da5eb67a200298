import io.lettuce.core.ClientOptions;
import io.lettuce.core.RedisClient;
import io.lettuce.core.codec.StringCodec;
import io.lettuce.core.output.ArrayOutput;
import io.lettuce.core.protocol.CommandArgs;
import java.util.Arrays;
import java.util.Scanner;
import redis.clients.jedis.Jedis;

/**
 * Jedis or Lettuce for tests/faults/test_client_retries.py: Retries [client] [usual or safe] [port].
 * Sends each line of its input over a client of its own, and prints the reply, or `error`.
 */
public class Retries {
    interface Sender {
        Object send(String[] words) throws Exception;
    }

    public static void main(String[] arguments) {
        int port = Integer.parseInt(arguments[2]);
        boolean safe = arguments[1].equals("safe");
        Sender sender = arguments[0].equals("jedis") ? words -> jedis(port, words) : words -> lettuce(port, safe, words);
        for (Scanner lines = new Scanner(System.in); lines.hasNextLine(); ) {
            try {
                System.out.println(sender.send(lines.nextLine().split(" ")));
            } catch (Exception error) {
                System.out.println("error");
            }
        }
        System.exit(0);
    }

    static Object jedis(int port, String[] words) {
        try (Jedis jedis = new Jedis("127.0.0.1", port)) {
            return jedis.sendCommand(() -> words[0].getBytes(), Arrays.copyOfRange(words, 1, words.length));
        }
    }

    static Object lettuce(int port, boolean safe, String[] words) {
        RedisClient client = RedisClient.create("redis://127.0.0.1:" + port);
        client.setOptions(ClientOptions.builder().autoReconnect(!safe).build());
        try (var connection = client.connect()) {
            var rest = new CommandArgs<>(StringCodec.UTF8).addValues(Arrays.asList(words).subList(1, words.length));
            return connection.sync().dispatch(() -> words[0].getBytes(), new ArrayOutput<>(StringCodec.UTF8), rest);
        } finally {
            client.shutdownAsync();
        }
    }
}
