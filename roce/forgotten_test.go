package roce

import (
	"runtime"
	"testing"
)

// TestForgottenMemory: a device goes on using what is registered, so the collector takes it neither
// when the application has forgotten it, nor when it has forgotten the region; only when the region
// was closed.
func TestForgottenMemory(t *testing.T) {
	d := openDevice(t, "pipe:"+t.Name(), nil)
	pd, err := d.AllocPD()
	must(t, err)
	collected := make(chan struct{})
	var key uint32
	func() {
		mem := new([1 << 16]byte)
		runtime.AddCleanup(mem, func(c chan struct{}) { close(c) }, collected)
		mr, err := pd.RegMR(mem[:], LocalWrite)
		must(t, err)
		key = mr.LKey()
	}()
	for range 5 {
		runtime.GC()
	}
	select {
	case <-collected:
		t.Fatal("registered memory was collected")
	default:
	}
	var mr *MR
	for x := range d.objects.all {
		if m, ok := x.(*MR); ok && m.LKey() == key {
			mr = m
		}
	}
	must(t, mr.Close())
	mr = nil
	for { // hangs if closed memory is kept
		runtime.GC()
		select {
		case <-collected:
			must(t, pd.Close())
			return
		default:
			runtime.Gosched()
		}
	}
}
