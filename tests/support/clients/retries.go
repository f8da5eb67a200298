// go-redis for tests/faults/test_client_retries.py: retries <client> <usual or safe> <port>
// Sends each line of its input over a client of its own, and prints the reply, or `error`.
package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/redis/go-redis/v9"
)

func main() {
	options := redis.Options{Addr: "127.0.0.1:" + os.Args[3]}
	if os.Args[2] == "safe" {
		options.MaxRetries = -1
	}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		own := options
		client := redis.NewClient(&own)
		var words []any
		for _, word := range strings.Fields(lines.Text()) {
			words = append(words, word)
		}
		if reply, err := client.Do(context.Background(), words...).Result(); err != nil {
			fmt.Println("error")
		} else {
			fmt.Println(reply)
		}
		client.Close()
	}
}
