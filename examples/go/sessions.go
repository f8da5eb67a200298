// All sessions of a user in one hash. Each ends half an hour after its last use.
package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"

	"github.com/redis/go-redis/v9"
)

const seconds = 1800

var (
	ctx = context.Background()
	rdb = connect()
)

// Returns the token. A user has five sessions: a sixth ends the one that would end first.
func logIn(user, content string) (string, error) {
	token := rand.Text()
	return token, rdb.Do(ctx, "HSETEX", "sessions:"+user, "MAXLEN", 5, "EVICT", "EX", seconds,
		"FIELDS", 1, token, content).Err()
}

// The content of the session, which gets its full time again; redis.Nil if it has ended.
func use(user, token string) (string, error) {
	found, err := rdb.Do(ctx, "HGETEX", "sessions:"+user, "EX", seconds, "FIELDS", 1, token).Slice()
	if err == nil && found[0] == nil {
		err = redis.Nil
	}
	if err != nil {
		return "", err
	}
	return found[0].(string), nil
}

func logOut(user string, tokens ...string) (int64, error) {
	return rdb.HDel(ctx, "sessions:"+user, tokens...).Result()
}

func logOutEverywhere(user string) (int64, error) {
	return rdb.Del(ctx, "sessions:"+user).Result()
}

func main() {
	phone, err := logIn("42", "phone")
	if err != nil {
		panic(err)
	}
	tablet, _ := logIn("42", "tablet")
	fmt.Println(use("42", phone))     // phone <nil>
	fmt.Println(logOut("42", tablet)) // 1 <nil>
	fmt.Println(use("42", tablet))    //  redis: nil
	for range 5 {
		logIn("42", "another")
	}
	fmt.Println(rdb.HLen(ctx, "sessions:42").Result()) // 5 <nil>
	fmt.Println(use("42", phone))                      //  redis: nil
	fmt.Println(logOutEverywhere("42"))                // 1 <nil>
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
