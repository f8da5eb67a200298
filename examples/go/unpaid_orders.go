// At most three unpaid orders a user, for half an hour each. Late ones go to a stream.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

const late = "orders:late"

var (
	ctx = context.Background()
	rdb = connect()
)

// Rule and consumer group are stored in Redis: once is enough, and more does no harm.
func setUp() error {
	rule := rdb.Do(ctx, "ONEXPIRE", "unpaid:*", "XADD", late, "MAXLEN", "~", 1_000_000)
	err := rdb.XGroupCreateMkStream(ctx, late, "cancel", "0").Err()
	if redis.HasErrorPrefix(err, "BUSYGROUP") {
		err = nil // it is there already
	}
	return errors.Join(rule.Err(), err)
}

// 1: placed, 0: there is an order of that name, -1: the user has three.
func place(user, order, content string, ttl time.Duration) (int64, error) {
	return rdb.Do(ctx, "HSETEX", "unpaid:"+user, "FNX", "MAXLEN", 3, "PX", ttl.Milliseconds(),
		"FIELDS", 1, order, content).Int64()
}

// False: it was too late, and the order is in the stream, or it was paid before.
func pay(user, order string) (bool, error) {
	removed, err := rdb.HDel(ctx, "unpaid:"+user, order).Result()
	return removed == 1, err
}

// Calls `cancel` for each late order, until it returns an error; first for those that this
// consumer had when it was killed. An order is acknowledged afterwards.
func cancelLate(consumer string, cancel func(user, order, content string) error) error {
	for start := "0"; ; {
		found, err := rdb.XReadGroup(ctx, &redis.XReadGroupArgs{
			Group: "cancel", Consumer: consumer, Streams: []string{late, start}, Block: 4 * time.Second,
		}).Result()
		if err == redis.Nil {
			continue
		} else if err != nil {
			return err
		}
		if len(found[0].Messages) == 0 {
			start = ">"
		}
		for _, message := range found[0].Messages {
			word := func(name string) string { return message.Values[name].(string) }
			user := strings.TrimPrefix(word("key"), "unpaid:")
			if err := cancel(user, word("element"), word("value")); err != nil {
				return err
			}
			if err := rdb.XAck(ctx, late, "cancel", message.ID).Err(); err != nil {
				return err
			}
		}
	}
}

func main() {
	if err := setUp(); err != nil {
		panic(err)
	}
	for _, order := range []string{"order1", "order2", "order3"} {
		place("42", order, `{"sku":7}`, 30*time.Minute)
	}
	fmt.Println(place("42", "order4", `{"sku":4}`, 30*time.Minute))      // -1 <nil>
	fmt.Println(pay("42", "order1"))                                     // true <nil>
	fmt.Println(pay("42", "order1"))                                     // false <nil>
	fmt.Println(place("42", "order4", `{"sku":4}`, 50*time.Millisecond)) // 1 <nil>
	cancelLate("consumer-1", func(user, order, content string) error {
		fmt.Println(user, order, content) // 42 order4 {"sku":4}
		return errors.New("enough")
	})
	fmt.Println(pay("42", "order4")) // false <nil>
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
