// Three clients, which ask once and stay: sharing <port> [<key>...]. Without keys they have a user, a
// database and a name; with keys they are clients of Clusters, and ask for each. It prints a line when
// all have asked, and ends with its input.
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
	address, keys := "127.0.0.1:"+os.Args[1], os.Args[2:]
	for number := 0; number < 3; number++ {
		var client redis.UniversalClient = redis.NewClient(&redis.Options{
			Addr: address, Username: "anne", Password: "a", DB: 1, ClientName: "mine",
		})
		names := []string{"k"}
		if len(keys) > 0 {
			client, names = redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{address}}), keys
		}
		for _, name := range names {
			if err := client.Set(ctx, name, "v", 0).Err(); err != nil {
				panic(err)
			}
			if client.StrLen(ctx, name).Val() != 1 {
				panic("not the value")
			}
		}
	}
	fmt.Println("asked")
	io.Copy(io.Discard, os.Stdin)
}
