// A leaderboard: of equal scores, the one that was reached first is ahead. It ends after a week.
package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

const week = 7 * 24 * time.Hour

var (
	ctx = context.Background()
	rdb = connect()
)

// A Row of a leaderboard; the best has place 1.
type Row struct {
	Place  int64
	Player string
	Score  int64
}

// The new score. Scores are integers of 64 bits, which replies give as strings.
func won(board, player string, points int64) (int64, error) {
	var score *redis.Cmd
	_, err := rdb.TxPipelined(ctx, func(together redis.Pipeliner) error {
		score = together.Do(ctx, "LBINCRBY", board, points, player)
		together.ExpireNX(ctx, board, week)
		return nil
	})
	if err != nil {
		return 0, err
	}
	return score.Int64()
}

func rows(command ...any) ([]Row, error) {
	found, err := rdb.Do(ctx, command...).Slice()
	if err != nil {
		return nil, err
	}
	var all []Row
	for _, each := range found {
		row := each.([]any)
		score, err := strconv.ParseInt(row[2].(string), 10, 64)
		if err != nil {
			return nil, err
		}
		all = append(all, Row{row[0].(int64) + 1, row[1].(string), score})
	}
	return all, nil
}

func best(board string, count int) ([]Row, error) {
	return rows("LBTOP", board, 0, count-1)
}

// The player's row, with `count` rows above and below.
func around(board, player string, count int) ([]Row, error) {
	return rows("LBAROUND", board, player, count)
}

func main() {
	for _, player := range []string{"ada", "bob", "cy"} {
		if _, err := won("week:1", player, 100); err != nil {
			panic(err)
		}
	}
	fmt.Println(won("week:1", "cy", 50))    // 150 <nil>
	fmt.Println(best("week:1", 2))          // [{1 cy 150} {2 ada 100}] <nil>
	fmt.Println(around("week:1", "bob", 1)) // [{2 ada 100} {3 bob 100}] <nil>
}

func connect() *redis.Client {
	url := os.Getenv("REDIS_URL")
	if url == "" {
		url = "redis://127.0.0.1:6380"
	}
	options, err := redis.ParseURL(url)
	if err != nil {
		panic(err)
	}
	options.MaxRetries = -1 // else it may send a request twice
	return redis.NewClient(options)
}
