// Ordinary use of a proxy by rueidis: rueidis PORT ends with 0 if all replies are right.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/redis/rueidis"
)

func same(found, wanted any) {
	if fmt.Sprint(found) != fmt.Sprint(wanted) {
		panic(fmt.Sprintf("%v instead of %v", found, wanted))
	}
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func main() {
	ctx := context.Background()
	connect := func() rueidis.Client {
		return must(rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{"127.0.0.1:" + os.Args[1]}}))
	}
	client, other := connect(), connect()
	words := func(name string, rest ...string) rueidis.Completed {
		return client.B().Arbitrary(name).Args(rest...).Build()
	}
	ask := func(name string, rest ...string) any { return must(client.Do(ctx, words(name, rest...)).ToAny()) }

	same(ask("SET", "k", "v", "EX", "100"), "OK")
	same(ask("HSETEX", "h", "EX", "100", "FIELDS", "1", "f", "v"), 1)
	same(ask("HTTLFIELD", "h", "f"), 100)
	replies := client.DoMulti(ctx, words("HSET", "h", "f", "2"), words("HTTLFIELD", "h", "f"))
	same(must(replies[0].AsInt64()), 0)
	same(must(replies[1].AsInt64()), -1)

	// What is cached is forgotten when its deadline ends: the proxy's reaper deletes the field.
	same(ask("HSETEX", "cached", "PX", "300", "FIELDS", "1", "f", "v"), 1)
	read := func() rueidis.RedisResult {
		return client.DoCache(ctx, client.B().Hgetall().Key("cached").Cache(), time.Minute)
	}
	same(must(read().AsStrMap()), "map[f:v]")
	for deadline := time.Now().Add(30 * time.Second); len(must(read().AsStrMap())) > 0; {
		if time.Now().After(deadline) {
			panic("it is cached for ever")
		}
		time.Sleep(10 * time.Millisecond)
	}
	same(read().IsCacheHit(), true)

	err := client.Dedicated(func(own rueidis.DedicatedClient) error {
		own.Do(ctx, words("WATCH", "n"))
		must(other.Do(ctx, other.B().Set().Key("n").Value("7").Build()).ToString())
		replies := own.DoMulti(ctx, words("MULTI"), words("INCR", "n"), words("EXEC"))
		same(rueidis.IsRedisNil(replies[2].Error()), true)
		replies = own.DoMulti(ctx, words("MULTI"), words("INCR", "n"), words("SADDEX", "s", "10", "m"), words("EXEC"))
		same(must(replies[3].AsIntSlice()), "[8 1]")
		return nil
	})
	same(err, nil)

	heard := make(chan rueidis.PubSubMessage, 1)
	subscribed := make(chan struct{}, 1)
	listening := rueidis.WithOnSubscriptionHook(ctx, func(rueidis.PubSubSubscription) { subscribed <- struct{}{} })
	go other.Receive(listening, other.B().Subscribe().Channel("c").Build(), func(m rueidis.PubSubMessage) { heard <- m })
	<-subscribed
	ask("PUBLISH", "c", "hello")
	same((<-heard).Message, "hello")

	popped := make(chan []string)
	go func() { popped <- must(connect().Do(ctx, client.B().Blpop().Key("l").Timeout(30).Build()).AsStrSlice()) }()
	ask("RPUSH", "l", "x")
	same(<-popped, "[l x]")
}
