// Users seen within the last minute, with a message when one has left.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/redis/go-redis/v9"
)

var (
	ctx = context.Background()
	rdb = connect()
)

// Once: the rule is stored in Redis.
func setUp() error {
	return rdb.Do(ctx, "ONEXPIRE", "online", "PUBLISH", "presence:left").Err()
}

// 1 if the user has just come.
func seen(user string, ttl time.Duration) (int64, error) {
	return rdb.Do(ctx, "SADDEX", "online", "PX", ttl.Milliseconds(), "MEMBERS", 1, user).Int64()
}

// The users who leave from now on. Close it in the end.
func left() (*redis.PubSub, error) {
	messages := rdb.Subscribe(ctx, "presence:left")
	_, err := messages.Receive(ctx) // returns when it is subscribed
	return messages, err
}

func main() {
	if err := setUp(); err != nil {
		panic(err)
	}
	leaving, err := left()
	if err != nil {
		panic(err)
	}
	defer leaving.Close()
	fmt.Println(seen("ann", time.Minute))             // 1 <nil>
	fmt.Println(seen("ann", time.Minute))             // 0 <nil>
	fmt.Println(seen("bob", 50*time.Millisecond))     // 1 <nil>
	fmt.Println((<-leaving.Channel()).Payload)        // bob
	fmt.Println(rdb.SMembers(ctx, "online").Result()) // [ann] <nil>
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
	return redis.NewClient(options)
}
