// A cache with tags. An entry leaves its tags when it expires, so tags do not grow for ever.
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

func put(entry, value string, ttl time.Duration, tags ...string) error {
	_, err := rdb.TxPipelined(ctx, func(together redis.Pipeliner) error {
		together.Set(ctx, "cache:"+entry, value, ttl)
		for _, tag := range tags {
			together.Do(ctx, "SADDEX", "tag:"+tag, "PX", ttl.Milliseconds(), "MEMBERS", 1, entry)
		}
		return nil
	})
	return err
}

func get(entry string) (string, error) {
	return rdb.Get(ctx, "cache:"+entry).Result()
}

// The entries that have both tags.
func withTags(tag, other string) ([]string, error) {
	return rdb.SInter(ctx, "tag:"+tag, "tag:"+other).Result()
}

// Deletes the entries with this tag, and says how many there were.
func invalidate(tag string) (int64, error) {
	entries, err := rdb.SMembers(ctx, "tag:"+tag).Result()
	if err != nil || len(entries) == 0 {
		return 0, err
	}
	var names []string
	for _, entry := range entries {
		names = append(names, "cache:"+entry)
	}
	var deleted *redis.IntCmd
	_, err = rdb.TxPipelined(ctx, func(together redis.Pipeliner) error {
		deleted = together.Del(ctx, names...)
		together.SRem(ctx, "tag:"+tag, entries)
		return nil
	})
	return deleted.Val(), err
}

func main() {
	if err := put("1", "Ruby for all", time.Hour, "ruby"); err != nil {
		panic(err)
	}
	put("2", "Ruby on the web", time.Minute, "ruby", "web")
	fmt.Println(withTags("ruby", "web")) // [2] <nil>
	fmt.Println(invalidate("web"))       // 1 <nil>
	fmt.Println(get("2"))                //  redis: nil
	fmt.Println(get("1"))                // Ruby for all <nil>
	fmt.Println(withTags("ruby", "web")) // [] <nil>
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
