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

// A task, and the token of its lease: nobody else's is renewed or ended with it.
type leased struct {
	task  string
	token any
}

// Of the next task; redis.Nil if there was none for two seconds.
func lease() (*leased, error) {
	reply, err := rdb.Do(ctx, "LEASE", tasks, busy, "EX", leaseS, "BLOCK", 2000, "TOKEN").Slice()
	if err != nil {
		return nil, err
	}
	return &leased{reply[0].(string), reply[1]}, nil
}

// redis.Nil: the lease is over, so another worker has the task, or will have it.
func (l *leased) renew(seconds int) error {
	token, err := rdb.Do(ctx, "RENEW", busy, l.token, l.task, "EX", seconds).Result()
	if err == nil {
		l.token = token
	}
	return err
}

// Renews the lease until the first channel is closed, and closes the second then.
func (l *leased) renewing(ended <-chan struct{}, over chan<- struct{}) {
	defer close(over)
	for {
		select {
		case <-ended:
			return
		case <-time.After(renewS * time.Second):
			if l.renew(leaseS) == redis.Nil {
				return
			}
		}
	}
}

func (l *leased) work() (string, error) {
	ended, over := make(chan struct{}), make(chan struct{})
	go l.renewing(ended, over)
	defer func() { close(ended); <-over }()
	return work(l.task)
}

// The fence: if several workers had the task, the first result counts. True: it is this one.
func (l *leased) finish(result string) (bool, error) {
	words := []any{"HSETEX", results, "FNX", "EX", dayS, "FIELDS", 1, l.task, result}
	first, err := rdb.Do(ctx, words...).Int64()
	if err != nil {
		return false, err
	}
	return first == 1, rdb.Do(ctx, "UNLEASE", busy, l.token, l.task).Err()
}

func (l *leased) run() error {
	result, err := rdb.HGet(ctx, results, l.task).Result()
	if err == redis.Nil {
		result, err = l.work()
	}
	if err != nil {
		lost := l.renew(retryS) // it goes back to the list then
		fmt.Printf("%s failed: %v\n", l.task, err)
		return lost
	}
	first, err := l.finish(result)
	if err == nil && first {
		fmt.Println(l.task, "is done")
	} else if err == nil {
		fmt.Println(l.task, "was done")
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
		next, err := lease()
		if err == nil {
			err = next.run()
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
