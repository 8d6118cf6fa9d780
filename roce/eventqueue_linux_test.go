package roce

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// readable asks as a program with an epoll loop does.
func readable(t *testing.T, fd int) bool {
	t.Helper()
	fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	n, err := unix.Poll(fds, 0)
	must(t, err)
	return n == 1
}

// TestEventFD: the file descriptor is readable while there are events, whenever it was asked for.
func TestEventFD(t *testing.T) {
	var q EventQueue[int]
	q.init(2)
	q.put(1)
	fd, err := q.FD()
	must(t, err)
	if again, err := q.FD(); again != fd || err != nil {
		t.Errorf("another one: %d, %v", again, err)
	}
	for _, step := range []struct {
		name string
		do   func()
		want bool
	}{
		{"an event from before", func() {}, true},
		{"taken", func() { q.TryGet() }, false},
		{"nothing taken", func() { q.TryGet() }, false},
		{"three come, one goes", func() { q.put(1); q.put(2); q.put(3) }, true},
		{"one of two is taken", func() { q.TryGet() }, true},
		{"the other one too", func() { q.TryGet() }, false},
		{"one comes and is removed", func() { q.put(1); q.remove(func(int) bool { return true }) }, false},
		{"who has read the descriptor puts back what was there", func() { eventFD(fd).raise() }, true},
		{"nothing taken by that one", func() { q.TryGet() }, false},
		{"and then one comes", func() { q.put(1) }, true},
	} {
		step.do()
		if got := readable(t, fd); got != step.want {
			t.Errorf("%s: readable is %v", step.name, got)
		}
	}
	q.close()
}

// TestEventFDOfTakers: the descriptor says nothing of an event that a goroutine in Wait is going to
// take, and all of what it leaves.
func TestEventFDOfTakers(t *testing.T) {
	var q EventQueue[int]
	q.init(0)
	fd, err := q.FD()
	must(t, err)
	take := func(put ...int) (e int, ok bool) {
		waits := 0
		return q.take(func() bool {
			if waits++; waits > 1 {
				return false
			}
			for _, e := range put {
				q.put(e)
			}
			if got, want := readable(t, fd), len(q.queue) > 1; got != want {
				t.Errorf("%d events and a taker: readable is %v", len(q.queue), got)
			}
			return len(put) > 0
		})
	}
	for _, put := range [][]int{{}, {1}, {2, 3}, {4}} {
		e, ok := take(put...)
		if ok != (len(put) > 0) {
			t.Errorf("of %v %d, %v is taken", put, e, ok)
		}
		if readable(t, fd) != q.some() {
			t.Errorf("of %v: readable is %v", put, !q.some())
		}
	}
	if e, ok := q.TryGet(); e != 4 || !ok { // 2 and 3 were taken before
		t.Errorf("%d, %v is left", e, ok)
	}
	q.take(func() bool { q.put(5); return false }) // its context has ended
	if !readable(t, fd) {
		t.Error("nobody is told of an event that a waiting goroutine has left")
	}
	q.close()
}

// TestEventFDRead: who reads the descriptor, which blocks in programs in C, and is ended before it
// puts back what it has read, keeps nobody waiting.
func TestEventFDRead(t *testing.T) {
	var q EventQueue[int]
	q.init(0)
	fd, err := q.FD()
	must(t, err)
	must(t, unix.SetNonblock(fd, false))
	for i := range 2 {
		q.put(i)
		if !readable(t, fd) {
			t.Error("not readable")
		}
		if n, err := unix.Read(fd, make([]byte, 8)); n != 8 || err != nil {
			t.Fatal(n, err)
		}
		if e, ok := q.TryGet(); e != i || !ok {
			t.Error("the event is gone")
		}
	}
	q.close()
}

// TestEventFDEdges: each event is an edge, so that a loop which takes one event an edge misses
// none.
func TestEventFDEdges(t *testing.T) {
	var q EventQueue[int]
	q.init(0)
	fd, err := q.FD()
	must(t, err)
	epfd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	must(t, err)
	defer unix.Close(epfd)
	must(t, unix.EpollCtl(epfd, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLET}))
	edges := func() int {
		n, err := unix.EpollWait(epfd, make([]unix.EpollEvent, 1), 0)
		must(t, err)
		return n
	}
	q.put(1)
	if edges() != 1 || edges() != 0 {
		t.Error("the first event is not one edge")
	}
	q.put(2) // before the first is taken
	if e, _ := q.TryGet(); e != 1 || edges() != 1 {
		t.Error("no edge for the second event")
	}
	if e, _ := q.TryGet(); e != 2 || edges() != 0 {
		t.Error("an edge for nothing")
	}
	q.close()
}

// TestCompletionsByFD: a program that sleeps in poll(2) gets every completion.
func TestCompletionsByFD(t *testing.T) {
	a, b := connected(t, wires[1], RC, 64)
	fd, err := b.ch.FD()
	must(t, err)
	for i := range uint64(200) {
		b.recv(i)
		must(t, b.cq.ReqNotify(false))
		a.post(SendWR{Opcode: WRSend})
		fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		for n := 0; n == 0; {
			if n, err = unix.Poll(fds, -1); err == unix.EINTR {
				n, err = 0, nil
			}
			must(t, err)
		}
		if got, ok := b.ch.TryGet(); !ok || got != b.cq {
			t.Fatalf("message %d: readable, and nothing is there", i)
		}
		var wcs [1]WC
		if n, err := b.cq.Poll(wcs[:]); n != 1 || err != nil || wcs[0].WRID != i {
			t.Fatalf("message %d: %d completions, %+v, %v", i, n, wcs[0], err)
		}
		a.wait()
	}
}

// TestCloseWakesPoll: who sleeps in poll(2) hears of the end.
func TestCloseWakesPoll(t *testing.T) {
	d := openDevice(t, "pipe:closepoll", nil)
	ch, err := d.CreateCompChannel()
	must(t, err)
	fd, err := ch.FD()
	must(t, err)
	asleep, woke := make(chan int), make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		asleep <- unix.Gettid()
		_, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, -1)
		woke <- err
	}()
	for tid := <-asleep; ; runtime.Gosched() { // until the thread sleeps
		stat, err := os.ReadFile(fmt.Sprintf("/proc/self/task/%d/stat", tid))
		must(t, err)
		if _, state, _ := strings.Cut(string(stat), ") "); strings.HasPrefix(state, "S") {
			break
		}
	}
	must(t, ch.Close())
	if err := <-woke; err != nil && err != unix.EINTR {
		t.Error(err)
	}
}
