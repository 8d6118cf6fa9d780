package trace

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/trace"
)

// put writes n packets, a second from each other.
func put(t *testing.T, f *files, n int) {
	rec := trace.Record{Link: trace.LinkEthernet, Data: make([]byte, 1000), Length: 1000}
	for i := range n {
		rec.Time = int64(time.Second) * int64(1_700_000_000+i)
		rec.Number = i + 1
		require.NoError(t, f.write(&rec))
	}
	require.NoError(t, f.close())
}

// sizes reads the files of a folder, each on its own, and says how many packets are in them.
func sizes(t *testing.T, dir string) (packets []int) {
	names, err := filepath.Glob(filepath.Join(dir, "night-*.pcapng"))
	require.NoError(t, err)
	for _, name := range names {
		data, err := os.ReadFile(name)
		require.NoError(t, err)
		src, err := trace.NewSource(bytes.NewReader(data))
		require.NoError(t, err)
		n := 0
		for ; ; n++ {
			if _, err = src.Next(); err != nil {
				break
			}
		}
		packets = append(packets, n)
	}
	return packets
}

func TestRotation(t *testing.T) {
	for _, c := range []struct {
		what  string
		rules Rotation
		n     int
		want  []int
	}{
		// what was written is known by 64 KiB
		{"by size", Rotation{Size: 100_000}, 300, []int{128, 128, 44}},
		{"by time", Rotation{Time: 10 * time.Second}, 25, []int{10, 10, 5}},
		{"by both", Rotation{Size: 1, Time: 100 * time.Second}, 150, []int{64, 64, 22}},
		{"the newest", Rotation{Time: 10 * time.Second, Keep: 2}, 45, []int{10, 5}},
	} {
		dir := t.TempDir()
		f, err := newFiles(filepath.Join(dir, "night.pcapng"), nil, c.rules)
		require.NoError(t, err)
		put(t, f, c.n)
		require.Equal(t, c.want, sizes(t, dir), c.what)
	}
}

// TestOneFile has the name that was given.
func TestOneFile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "one.pcapng")
	f, err := newFiles(name, nil, Rotation{})
	require.NoError(t, err)
	put(t, f, 200)
	require.FileExists(t, name)
}

func TestCaptureOptions(t *testing.T) {
	for _, c := range []struct {
		o    CaptureOptions
		want string
	}{
		{CaptureOptions{Files: Rotation{Size: 1}}, "--write"},
		{CaptureOptions{Write: "-", Files: Rotation{Size: 1}}, "one file"},
		{CaptureOptions{Write: "x", Files: Rotation{Keep: 3}}, "--file-size or --file-time"},
	} {
		require.ErrorContains(t, Capture(t.Context(), nil, nil, "lo", c.o), c.want)
	}
	var o CaptureOptions
	o.Write, o.Snap = "x", 20
	require.ErrorContains(t, Capture(t.Context(), nil, nil, "lo", o), "--snap 20")
}
