// Three clients, which ask once and stay: sharing <port> [<key>...]. Without keys they have a user, a
// database and a name; with keys they are clients of Clusters, and ask for each; the first goes on asking. It prints a line when
// all have asked, and ends with its input.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/redis/go-redis/v9"
)

func main() {
	ctx := context.Background()
	address, keys := "127.0.0.1:"+os.Args[1], os.Args[2:]
	clients := []redis.UniversalClient{}
	for number := 0; number < 3; number++ {
		var client redis.UniversalClient = redis.NewClient(&redis.Options{
			Addr: address, Username: "anne", Password: "a", DB: 1, ClientName: "mine",
		})
		names := []string{"k"}
		if len(keys) > 0 {
			client, names = redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{address}}), keys
		}
		clients = append(clients, client)
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
	if len(keys) > 0 {
		go askOn(ctx, clients[0], keys)
	}
	io.Copy(io.Discard, os.Stdin)
}

// Clients of Clusters ask for the topology in between: so GETRANGE is soon the last request again.
func askOn(ctx context.Context, client redis.UniversalClient, keys []string) {
	for {
		for _, name := range keys {
			client.GetRange(ctx, name, 0, 0)
		}
		time.Sleep(50 * time.Millisecond)
	}
}
