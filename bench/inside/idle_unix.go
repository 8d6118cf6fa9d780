//go:build unix

package inside

import (
	"syscall"
	"time"

	"github.com/goroce/goroce/roce"
)

// idle opens a device with a queue pair that is connected to another one of its own, exchanges
// something, and then counts what processor time the whole process takes while nothing happens.
func idle(t Task) (float64, error) {
	var s side
	defer s.close()
	if err := s.open(t.Device, 2, burst, nil); err != nil {
		return 0, err
	}
	if err := connect(s.qps[0], s.qps[1]); err != nil {
		return 0, err
	}
	err := s.qps[0].PostSend(roce.SendWR{Opcode: roce.WRWrite, Flags: roce.SendSignaled,
		SGL: []roce.SGE{s.mr.SGE(0, 8)}, RemoteAddr: s.mr.Addr() + 64, RKey: s.mr.RKey()})
	for wcs, n := make([]roce.WC, 1), 0; err == nil && n == 0; {
		n, err = s.cq.Poll(wcs)
	}
	if err != nil {
		return 0, err
	}
	time.Sleep(100 * time.Millisecond)
	before, start := processorTime(), time.Now()
	time.Sleep(2 * t.Duration)
	return 100 * (processorTime() - before).Seconds() / time.Since(start).Seconds(), nil
}

func processorTime() time.Duration {
	var u syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
