// A worker: takes tasks from a list, one at a time. Start as many as you like, where you like.
// `LPUSH tasks mail:1` gives them a task. The name of a task must be its own.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	tasks, busy, results         = "tasks", "tasks:busy", "tasks:results"
	leaseS, renewS, retryS, dayS = 10, 1, 1, 86400
)

var (
	ctx = context.Background()
	rdb = connect()
)

// Yours. It may take as long as it likes, and returns an error if it fails.
func work(task string) (string, error) {
	if !strings.HasPrefix(task, "mail:") {
		return "", errors.New("no such task")
	}
	time.Sleep(2 * time.Second)
	return "sent", nil
}

// A task whose lease ends goes back to the list, the fourth time to the dead letters.
func setUp() error {
	return rdb.Do(ctx, "ONEXPIRE", busy, "RPUSH", tasks, "MAX", 3, "ELSE", "tasks:dead").Err()
}

// The next task; redis.Nil if there was none for two seconds.
func lease() (string, error) {
	return rdb.Do(ctx, "LEASE", tasks, busy, "EX", leaseS, "BLOCK", 2000).Text()
}

// 1, or -2: the lease has ended, so another worker has the task, or will have it.
func renew(task string, seconds int) (int64, error) {
	return rdb.Do(ctx, "SEXPIREMEMBER", busy, task, seconds).Int64()
}

// Renews the lease until the channel is closed.
func renewing(task string, ended <-chan struct{}) {
	for {
		select {
		case <-ended:
			return
		case <-time.After(renewS * time.Second):
			if reply, err := renew(task, leaseS); err == nil && reply != 1 {
				return
			}
		}
	}
}

// The fence: if several workers had the task, the first result counts. True: it is this one.
func finish(task, result string) (bool, error) {
	first, err := rdb.Do(ctx, "HSETEX", results, "FNX", "EX", dayS, "FIELDS", 1, task, result).Int64()
	if err != nil {
		return false, err
	}
	return first == 1, rdb.SRem(ctx, busy, task).Err()
}

func run(task string) error {
	result, err := rdb.HGet(ctx, results, task).Result()
	if err == redis.Nil {
		ended := make(chan struct{})
		go renewing(task, ended)
		result, err = work(task)
		close(ended)
	}
	if err != nil {
		_, lost := renew(task, retryS) // it goes back to the list then
		fmt.Printf("%s failed: %v\n", task, err)
		return lost
	}
	first, err := finish(task, result)
	if err == nil && first {
		fmt.Println(task, "is done")
	} else if err == nil {
		fmt.Println(task, "was done")
	}
	return err
}

func main() {
	stop, cancel := signal.NotifyContext(ctx, syscall.SIGTERM, os.Interrupt)
	defer cancel()
	if err := setUp(); err != nil {
		panic(err)
	}
	for stop.Err() == nil {
		task, err := lease()
		if err == nil {
			err = run(task)
		}
		if err != nil && err != redis.Nil { // the lease of a task ends by itself
			fmt.Println(err)
			time.Sleep(time.Second)
		}
	}
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
