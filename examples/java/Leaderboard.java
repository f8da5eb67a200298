import java.util.List;
import redis.clients.jedis.Jedis;
import redis.clients.jedis.args.ExpiryOption;
import redis.clients.jedis.util.SafeEncoder;

/** A leaderboard: of equal scores, the one that was reached first is ahead. It ends after a week. */
public class Leaderboard {
    static final int WEEK_S = 7 * 24 * 3600;
    static final Jedis redis =
            new Jedis(System.getenv().getOrDefault("REDIS_URL", "redis://127.0.0.1:6380"));

    /** A row; the best has place 1. */
    record Row(long place, String player, long score) {}

    /** The new score. Scores are integers of 64 bits, which replies give as strings. */
    static long won(String board, String player, long points) {
        try (var together = redis.multi()) {
            var score = together.sendCommand(() -> "LBINCRBY".getBytes(), board, "" + points, player);
            together.expire(board, WEEK_S, ExpiryOption.NX);
            together.exec();
            return Long.parseLong(SafeEncoder.encode((byte[]) score.get()));
        }
    }

    static List<Row> rows(String command, String... words) {
        var found = (List<?>) SafeEncoder.encodeObject(redis.sendCommand(() -> command.getBytes(), words));
        return found.stream().map(each -> (List<?>) each).map(Leaderboard::row).toList();
    }

    static Row row(List<?> words) {
        return new Row((long) words.get(0) + 1, (String) words.get(1), Long.parseLong((String) words.get(2)));
    }

    static List<Row> best(String board, int count) {
        return rows("LBTOP", board, "0", "" + (count - 1));
    }

    /** The player's row, with `count` rows above and below. */
    static List<Row> around(String board, String player, int count) {
        return rows("LBAROUND", board, player, "" + count);
    }

    public static void main(String[] arguments) {
        for (String player : List.of("ada", "bob", "cy")) won("week:1", player, 100);
        System.out.println(won("week:1", "cy", 50)); // 150
        System.out.println(best("week:1", 1)); // [Row[place=1, player=cy, score=150]]
        System.out.println(around("week:1", "bob", 0)); // [Row[place=3, player=bob, score=100]]
        redis.close();
    }
}
