// A flash sale: a hash has as many fields as there are items. An unpaid field expires.
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

// 1: reserved, 0: the buyer has one, -1: sold out, for now.
func reserve(sale, buyer string, items int, ttl time.Duration) (int64, error) {
	return rdb.Do(ctx, "HSETEX", sale, "FNX", "MAXLEN", items, "PX", ttl.Milliseconds(),
		"FIELDS", 1, buyer, "").Int64()
}

// Before the money is taken. 1: sold, -1: sold before, -2: too late.
func pay(sale, buyer string) (int64, error) {
	return rdb.Do(ctx, "HPERSISTFIELD", sale, buyer).Int64()
}

// 1: given back, 0: its time was over.
func giveBack(sale, buyer string) (int64, error) {
	return rdb.HDel(ctx, sale, buyer).Result()
}

func main() {
	const sale, items, ttl = "sale:7", 3, 15 * time.Minute
	for _, buyer := range []string{"ann", "bob", "cy"} {
		if _, err := reserve(sale, buyer, items, ttl); err != nil {
			panic(err)
		}
	}
	fmt.Println(reserve(sale, "bob", items, ttl)) // 0 <nil>
	fmt.Println(reserve(sale, "dan", items, ttl)) // -1 <nil>
	fmt.Println(pay(sale, "ann"))                 // 1 <nil>
	fmt.Println(pay(sale, "ann"))                 // -1 <nil>
	fmt.Println(giveBack(sale, "bob"))            // 1 <nil>
	fmt.Println(reserve(sale, "dan", items, ttl)) // 1 <nil>
	rdb.Do(ctx, "HEXPIREFIELD", sale, "dan", 0)   // his time is over
	fmt.Println(pay(sale, "dan"))                 // -2 <nil>
	fmt.Println(reserve(sale, "eve", items, ttl)) // 1 <nil>
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
