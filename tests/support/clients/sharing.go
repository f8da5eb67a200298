// Three clients with user, database and name, which ask once and stay: sharing <port>. It prints a
// line when all have asked, and ends with its input.
package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/redis/go-redis/v9"
)

func main() {
	ctx := context.Background()
	for number := 0; number < 3; number++ {
		client := redis.NewClient(&redis.Options{
			Addr: "127.0.0.1:" + os.Args[1], Username: "anne", Password: "a", DB: 1, ClientName: "mine",
		})
		if err := client.Set(ctx, "k", "v", 0).Err(); err != nil {
			panic(err)
		}
		if client.StrLen(ctx, "k").Val() != 1 {
			panic("not the value")
		}
	}
	fmt.Println("asked")
	io.Copy(io.Discard, os.Stdin)
}
