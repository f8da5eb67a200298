// Three limits: a steady rate with bursts, so many in a second, so many at a time.
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

// 0: go on; else how long to wait. `burst`: so many at once, after a rest.
// CL.THROTTLE takes the number beyond the first: with 15 it allows 16.
func wait(key string, burst, count, periodS int) (time.Duration, error) {
	reply, err := rdb.Do(ctx, "CL.THROTTLE", key, burst-1, count, periodS).Int64Slice()
	if err != nil || reply[0] == 0 {
		return 0, err
	}
	return time.Duration(reply[3]) * time.Second, nil
}

// Whether it is one of the first `most` of a period, which begins with its first.
func allowed(key string, most, periodS int) (bool, error) {
	reply, err := rdb.Do(ctx, "INCREX", key, "BYINT", 1, "UBOUND", most, "EX", periodS, "ENX").Int64Slice()
	return err == nil && reply[1] == 1, err
}

// True: `name` may work, until it calls `end` or its time is over. False: `most` others do.
func begin(key, name string, most int, ttl time.Duration) (bool, error) {
	added, err := rdb.Do(ctx, "SADDEX", key, "MAXLEN", most, "PX", ttl.Milliseconds(), "MEMBERS", 1, name).Int64()
	return err == nil && added != -1, err
}

// 0: it took longer than its time, so there may have been too many.
func end(key, name string) (int64, error) {
	return rdb.SRem(ctx, key, name).Result()
}

func main() {
	free := 0
	delay, err := wait("pay:ann", 15, 30, 3600)
	for ; delay == 0 && err == nil; free++ {
		delay, err = wait("pay:ann", 15, 30, 3600)
	}
	fmt.Println(free)                                     // 15
	fmt.Println(0 < delay && delay <= 2*time.Minute, err) // true <nil>
	for range 3 {
		allowed("login", 3, 60)
	}
	fmt.Println(allowed("login", 3, 60))              // false <nil>
	fmt.Println(begin("export", "a", 2, time.Minute)) // true <nil>
	fmt.Println(begin("export", "b", 2, time.Minute)) // true <nil>
	fmt.Println(begin("export", "c", 2, time.Minute)) // false <nil>
	fmt.Println(end("export", "a"))                   // 1 <nil>
	fmt.Println(begin("export", "c", 2, time.Minute)) // true <nil>
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
