package play

import (
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// meterEvery is how often the counters are read: a few times in the middle half of a short play,
// and too rarely to disturb it.
const meterEvery = 100 * time.Millisecond

// counters are in the first lines of /proc/stat: this is room for hundreds of processors.
const counters = 32 << 10

// meter reads the counters until it is stopped.
type meter struct {
	stop     chan struct{}
	readings chan []reading
}

func startMeter() *meter {
	m := &meter{make(chan struct{}), make(chan []reading, 1)}
	go m.read()
	return m
}

// end stops the meter and returns what it has read.
func (m *meter) end() []reading {
	close(m.stop)
	return <-m.readings
}

// read reads until it is told to stop, and makes sense of it only then, when nobody plays.
func (m *meter) read() {
	var texts []string
	var readings []reading
	defer func() { m.readings <- parseStats(texts, readings) }()
	f, err := os.Open("/proc/stat")
	if err != nil {
		return
	}
	defer f.Close()
	tick := time.NewTicker(meterEvery)
	defer tick.Stop()
	for buf := make([]byte, counters); ; {
		n, _ := f.ReadAt(buf, 0) // io.EOF, as a rule
		texts, readings = append(texts, string(buf[:n])), append(readings, reading{at: time.Now(), self: ownTime()})
		select {
		case <-m.stop:
			return
		case <-tick.C:
		}
	}
}

// How long a look at what others do takes: before a run, and before each play.
const (
	longLook  = 2 * time.Second
	shortLook = 200 * time.Millisecond
)

// othersLoad is how many processors are busy while nothing is played.
func othersLoad(look time.Duration) float64 {
	m, began := startMeter(), time.Now()
	time.Sleep(look)
	l, err := loadOf(m.end(), began, time.Now(), 0)
	if err != nil {
		return 0
	}
	return l.busy
}

// ownTime is the processor time of this process so far, without that of the programs that it
// started.
func ownTime() time.Duration {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// parseStats completes the readings with what was read then, and leaves out what makes no sense.
func parseStats(texts []string, readings []reading) (complete []reading) {
	for i, text := range texts {
		if err := readings[i].parse(text); err == nil {
			complete = append(complete, readings[i])
		}
	}
	return complete
}
