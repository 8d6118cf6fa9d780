package step_test

// The orders that are played, on goroutines whose orders are known; and the rewriting of what the
// language has.

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goroce/goroce/internal/step"
	"github.com/goroce/goroce/internal/step/atomic"
	"github.com/goroce/goroce/internal/step/context"
	"github.com/goroce/goroce/internal/step/sync"
	"github.com/goroce/goroce/internal/step/time"
)

// TestOrders: two goroutines of two steps each on one object have six orders, and the numbers that
// two increments without a lock can come to are both seen.
func TestOrders(t *testing.T) {
	seen, orders := map[string]bool{}, 0
	s := step.Story{Switches: 3, Tell: func(p *step.Play) {
		var n atomic.Int32
		order, left := "", 2
		for _, name := range []string{"a", "b"} {
			p.Task(name, func() {
				v := n.Load()
				order += name
				n.Store(v + 1)
				order += name
				if left--; left == 0 {
					orders++
					seen[order] = true
					seen[[]string{1: "lost", 2: "both"}[n.Load()]] = true
				}
			})
		}
	}}
	s.Play(t)
	for _, want := range []string{"aabb", "abab", "abba", "baab", "baba", "bbaa", "lost", "both"} {
		if !seen[want] {
			t.Errorf("of %d orders none was %s", orders, want)
		}
	}
}

// sleeper looks and then sleeps; with the lock it does both at once.
func sleeper(locked bool) *step.Story {
	return &step.Story{Switches: 2, Random: 50, Tell: func(p *step.Play) {
		var mu sync.Mutex
		changed := sync.Cond{L: &mu}
		var there atomic.Bool
		p.Task("waits", func() {
			if locked {
				mu.Lock()
			}
			for !there.Load() {
				if !locked {
					mu.Lock()
				}
				changed.Wait()
				if !locked {
					mu.Unlock()
				}
			}
			if locked {
				mu.Unlock()
			}
		})
		p.Task("wakes", func() {
			mu.Lock()
			there.Store(true)
			changed.Broadcast()
			mu.Unlock()
		})
	}}
}

// TestLostWake: who looks before it takes the lock is found asleep, and the order that does it can
// be read.
func TestLostWake(t *testing.T) {
	sleeper(true).Play(t)
	which, err, steps := sleeper(false).Find()
	if err == nil || err.Error() != "sleeps for ever: waits" {
		t.Fatalf("%s: %v", which, err)
	}
	for _, want := range []string{"waits", "wakes", "step_test.go", "Cond).Wait", "Cond).Broadcast"} {
		if !strings.Contains(steps, want) {
			t.Errorf("the order does not name %s:%s", want, steps)
		}
	}
}

// TestWaits: what waits for a channel, a timer or a context goes on, and time passes for nobody
// else.
func TestWaits(t *testing.T) {
	s := step.Story{Switches: 2, Tell: func(p *step.Play) {
		c := make(chan int, 1)
		ctx, end := context.WithTimeout(context.Background(), time.Second)
		var rang, all sync.WaitGroup
		rang.Add(1)
		context.AfterFunc(ctx, rang.Done)
		p.Task("waits", func() {
			began := time.Now()
			timer := time.NewTimer(time.Minute / 2)
			for n := 0; n < 2; {
				switch step.Select(false, step.R(c), step.R(timer.C)) {
				case 0:
					n += step.Got(c)
				case 1:
					step.Fail("it rings after %v", time.Since(began))
				}
			}
			rang.Wait()
			if ctx.Err() != context.DeadlineExceeded || time.Since(began) != time.Second {
				step.Fail("%v after %v", ctx.Err(), time.Since(began))
			}
			all.Wait()
			end()
		})
		p.Task("sends", func() {
			for range 2 {
				all.Go(func() { step.Send(c, 1) })
			}
		})
	}}
	s.Play(t)
}

// TestRewrite: the language's own are calls, imports are replaced, and every line stays where it
// was.
func TestRewrite(t *testing.T) {
	const before = `// a comment
package p

import (
	"sync"
	"time"
)

func f(c, d chan int) (n int) {
	go g(1)
	c <- <-d
	v, ok := <-c
	select {
	case n = <-c:
		d <- n
	case w, open := <-d:
		_, _ = w, open
	case c <- v:
	default:
		close(d)
	}
	return
}
`
	const after = `// a comment
package p; import step_ "github.com/goroce/goroce/internal/step"

import (
	"github.com/goroce/goroce/internal/step/sync"
	"time"
)

func f(c, d chan int) (n int) {
	step_.Go(func() { g(1) })
	step_.Send(c , step_.Recv(d))
	v, ok := step_.Recv2(c)
	switch step_.Select(true, step_.R(c), step_.R(d), step_.S(c, v)) {
	case 0: n = step_.Got(c)
		step_.Send(d , n)
	case 1: w, open := step_.Got2(d)
		_, _ = w, open
	case 2:
	default:
		step_.Close(d)
	}
	return
}

var _ = step_.Go
`
	path := filepath.Join(t.TempDir(), "p.go")
	if err := os.WriteFile(path, []byte(before), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := step.Rewrite(path, []byte(before), []string{"time"})
	if err != nil || string(got) != after {
		t.Errorf("%v\n%s", err, got)
	}
}
