// A leaderboard: of equal scores, the one that was reached first is ahead. It ends after a week.
import Redis from "ioredis";

const url = process.env.REDIS_URL ?? "redis://127.0.0.1:6380";
const redis = new Redis(url, { maxRetriesPerRequest: 0 }); // else it may send a request twice
const WEEK_S = 7 * 24 * 3600;

// The new score. Scores are integers of 64 bits, which replies give as strings.
async function won(board, player, points) {
  const together = redis.multi().call("LBINCRBY", board, points, player);
  const [[, score]] = await together.expire(board, WEEK_S, "NX").exec();
  return BigInt(score);
}

// [[place, player, score]], the best first; the best has place 1.
async function rows(command, board, ...words) {
  const found = await redis.call(command, board, ...words);
  return found.map(([rank, player, score]) => [rank + 1, player, BigInt(score)]);
}

const best = (board, count) => rows("LBTOP", board, 0, count - 1);

// The player's row, with `count` rows above and below.
const around = (board, player, count) => rows("LBAROUND", board, player, count);

for (const player of ["ada", "bob", "cy"]) await won("week:1", player, 100);
console.log(await won("week:1", "cy", 50)); // 150n
console.log(await best("week:1", 2)); // [ [ 1, 'cy', 150n ], [ 2, 'ada', 100n ] ]
console.log(await around("week:1", "bob", 1)); // [ [ 2, 'ada', 100n ], [ 3, 'bob', 100n ] ]
console.log(await redis.call("LBRANK", "week:1", "nobody")); // null
redis.disconnect();
