// Ordinary use of a proxy in front of several masters, while slots move:
// go run . Client|ClusterClient PORT ends with 0 if all replies are right.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/redis/go-redis/v9"
)

var ctx = context.Background()

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func same(found, wanted any) {
	if fmt.Sprint(found) != fmt.Sprint(wanted) {
		panic(fmt.Sprintf("%v instead of %v", found, wanted))
	}
}

func connect(client, address string) redis.UniversalClient {
	if client == "ClusterClient" {
		return redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{address}})
	}
	return redis.NewClient(&redis.Options{Addr: address})
}

func main() {
	rdb := connect(os.Args[1], "127.0.0.1:"+os.Args[2])
	for number := range 30 {
		key := fmt.Sprintf("k:%d", number)
		same(must(rdb.Set(ctx, key, number, 0).Result()), "OK")
		same(must(rdb.Get(ctx, key).Result()), number)
	}
	same(must(rdb.Do(ctx, "HSETEX", "h", "EX", 100, "FIELDS", 1, "f", "v").Result()), 1)
	same(must(rdb.Do(ctx, "HTTLFIELD", "h", "f").Result()), 100)

	replies := must(rdb.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for number := range 30 {
			pipe.Get(ctx, fmt.Sprintf("k:%d", number))
		}
		return nil
	}))
	for number, reply := range replies {
		same(reply.(*redis.StringCmd).Val(), number)
	}

	increase := func(tx *redis.Tx) error {
		_, err := tx.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
			pipe.Incr(ctx, "{t}n")
			return nil
		})
		return err
	}
	for range 2 {
		same(rdb.Watch(ctx, increase, "{t}n"), nil)
	}
	same(must(rdb.Get(ctx, "{t}n").Result()), 2)
	changed := func(tx *redis.Tx) error {
		must(rdb.Set(ctx, "{t}n", 7, 0).Result())
		return increase(tx)
	}
	same(rdb.Watch(ctx, changed, "{t}n"), redis.TxFailedErr)

	subscription := rdb.Subscribe(ctx, "c")
	must(subscription.Receive(ctx))
	must(rdb.Publish(ctx, "c", "hello").Result())
	same(must(subscription.ReceiveMessage(ctx)).Payload, "hello")

	popped := make(chan []string)
	go func() { popped <- must(rdb.BLPop(ctx, 30*time.Second, "l").Result()) }()
	must(rdb.RPush(ctx, "l", "x").Result())
	same(<-popped, "[l x]")

	own := 0
	for ; must(rdb.Exists(ctx, "{moves}stop").Result()) == 0; own++ {
		must(rdb.Incr(ctx, "{moves}n").Result())
		must(rdb.Do(ctx, "HSETEX", "{moves}h", "EX", 100, "FIELDS", 1, "f", own).Result())
	}
	same(must(rdb.Get(ctx, "{moves}n").Result()), own)
}
