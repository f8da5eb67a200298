#!/usr/bin/env bash
# miniredis 2.40.0, a Redis for tests of Go programs: HSET keeps the deadline of the field that it overwrites, and a field that was
# deleted by HDEL and is set again has its old deadline; `HEXPIRE key 0` replies 1 and keeps the field. In Redis 7.4 and later
# HSET removes the deadline, HDEL too, and HEXPIRE with 0 deletes the field and replies 2. So a test with miniredis passes for a
# program that loses its deadlines in front of Redis.
# Needs Go 1.24 or later, and the Go module proxy.
set -euo pipefail
folder=$(mktemp -d)
trap 'chmod -R u+w "$folder"; rm -rf "$folder"' EXIT
cd "$folder"
cat > main.go <<'GO'
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
)

func main() {
	server, err := miniredis.Run()
	if err != nil {
		panic(err)
	}
	defer server.Close()
	client := redis.NewClient(&redis.Options{Addr: server.Addr(), Protocol: 2})
	ask := func(words ...any) string {
		reply, err := client.Do(context.Background(), words...).Result()
		if err != nil {
			reply = err
		}
		return fmt.Sprint(reply)
	}
	ask("HSET", "h", "f", "1", "other", "1")
	ask("HEXPIRE", "h", 10, "FIELDS", 1, "f")
	ask("HSET", "h", "f", "2")
	overwritten := ask("HTTL", "h", "FIELDS", 1, "f")
	ask("HDEL", "h", "f")
	ask("HSET", "h", "f", "3")
	again := ask("HTTL", "h", "FIELDS", 1, "f")
	zero := ask("HEXPIRE", "h", 0, "FIELDS", 1, "f")
	kept := ask("HGET", "h", "f")
	fmt.Println("HTTL after HSET:", overwritten, "after HDEL and HSET:", again, "HEXPIRE 0:", zero, "then HGET:", kept)
	if overwritten != "[10]" || again != "[10]" || zero != "[1]" || kept != "3" {
		os.Exit(1)
	}
}
GO
go mod init finding 2> /dev/null
go get github.com/alicebob/miniredis/v2@v2.40.0 github.com/redis/go-redis/v9@v9.23.0 2> /dev/null
go build -o finding .
./finding
