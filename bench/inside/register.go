package inside

// What registering a gigabyte costs: alone, with its pages pinned, and what the system takes for
// pinning them.

import (
	"slices"
	"time"

	"github.com/goroce/goroce/roce"
)

const gibibyte = 1 << 30

func register(Task) (float64, error) {
	return registering(&roce.Config{}, func(pd *roce.PD) (float64, error) {
		return registerOnce(pd, make([]byte, gibibyte))
	})
}

func registerPinned(Task) (float64, error) {
	return registering(&roce.Config{PinMemory: true}, func(pd *roce.PD) (float64, error) {
		return median(func(buf []byte) (float64, error) { return registerOnce(pd, buf) })
	})
}

func lockAlone(Task) (float64, error) { return median(lockOnce) }

// registering runs f with a protection domain.
func registering(cfg *roce.Config, f func(*roce.PD) (float64, error)) (float64, error) {
	d, err := roce.Open("pipe:register", cfg)
	if err != nil {
		return 0, err
	}
	defer d.Close()
	pd, err := d.AllocPD()
	if err != nil {
		return 0, err
	}
	defer pd.Close()
	return f(pd)
}

// registerOnce is how long buf takes, in microseconds.
func registerOnce(pd *roce.PD, buf []byte) (float64, error) {
	start := time.Now()
	m, err := pd.RegMR(buf, roce.LocalWrite|roce.RemoteWrite|roce.RemoteRead)
	took := time.Since(start)
	if err != nil {
		return 0, err
	}
	return float64(took.Nanoseconds()) / 1e3, m.Close()
}

// median is the middle of five results of f, each with a fresh gigabyte: how fast the system finds
// pages varies.
func median(f func(buf []byte) (float64, error)) (float64, error) {
	var all []float64
	for range 5 {
		buf, free, err := fresh(gibibyte)
		if err != nil {
			return 0, err
		}
		us, err := f(buf)
		free()
		if err != nil {
			return 0, err
		}
		all = append(all, us)
	}
	slices.Sort(all)
	return all[len(all)/2], nil
}
