package lab

// Tests of the image's parts that need neither root nor QEMU.

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestChooseKernel(t *testing.T) {
	const listing = `linux-image-6.1.0-9-amd64-unsigned - Linux 6.1 for 64-bit PCs
linux-image-6.1.0-56-amd64 - Linux 6.1 for 64-bit PCs (signed)
linux-image-6.1.0-56-amd64-unsigned - Linux 6.1 for 64-bit PCs
linux-image-6.12.99+deb12-amd64-unsigned - Linux 6.12 for 64-bit PCs
linux-image-6.12.117+deb12-amd64-unsigned - Linux 6.12 for 64-bit PCs
linux-image-6.12.118+deb12-cloud-amd64-unsigned - no rdma_rxe in it
linux-image-6.12.118+deb12-rt-amd64-unsigned - PREEMPT_RT
linux-image-6.12.118+deb12-amd64-dbg - symbols
linux-image-6.12-amd64 - Linux for 64-bit PCs (meta-package)
`
	for _, c := range []struct {
		series []string
		want   string
	}{
		{[]string{"6.12", "6.1"}, "linux-image-6.12.117+deb12-amd64-unsigned"},
		{[]string{"6.1"}, "linux-image-6.1.0-56-amd64-unsigned"},
		{[]string{"9.9", "6.1"}, "linux-image-6.1.0-56-amd64-unsigned"},
		{[]string{NewestKernel}, "linux-image-6.12.117+deb12-amd64-unsigned"},
	} {
		got, err := chooseKernel(listing, c.series)
		require.NoError(t, err)
		require.Equal(t, c.want, got)
	}
	_, err := chooseKernel(listing, []string{"9.9"})
	require.ErrorContains(t, err, "linux-image-9.9.")
}

func TestKernelParts(t *testing.T) {
	require.Empty(t, kernelParts("linux-image-6.1.0-56-amd64\n  PreDepends: linux-base\n  Depends: kmod\n  Depends: "+
		"<linux-initramfs-tool>\n"))
	require.Equal(t, []string{"linux-base-7.3.4+deb13-amd64", "linux-binary-7.3.4+deb13-amd64", "linux-modules-7.3.4+deb13-amd64"},
		kernelParts(`linux-image-7.3.4+deb13-amd64
  PreDepends: linux-base
 |Depends: dracut
  Depends: linux-base-7.3.4+deb13-amd64
  Depends: linux-binary-7.3.4+deb13-amd64
  Depends: linux-modules-7.3.4+deb13-amd64
`))
}

func TestModuleNames(t *testing.T) {
	require.Equal(t, "crc32_pclmul", moduleName("kernel/arch/x86/crypto/crc32-pclmul.ko.xz"))
	require.Equal(t, "rdma_rxe", moduleName("rdma_rxe.ko"))
}

// testTree is what a few packages might hold, as tar entries.
func testTree(t *testing.T) tree {
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, h := range []tar.Header{
		{Name: "./bin/ip", Typeflag: tar.TypeReg, Mode: 0o755},
		{Name: "./sbin/ip", Typeflag: tar.TypeSymlink, Linkname: "/bin/ip"},
		// Once /bin is /usr/bin, this one is itself.
		{Name: "./usr/bin/ip", Typeflag: tar.TypeSymlink, Linkname: "/bin/ip"},
		{Name: "./lib/a/one.so.1", Typeflag: tar.TypeSymlink, Linkname: "../b/one.so.1.2"},
		{Name: "./lib/b/one.so.1.2", Typeflag: tar.TypeReg, Mode: 0o644},
		{Name: "./usr/bin/same", Typeflag: tar.TypeLink, Linkname: "./bin/ip"},
		{Name: "./usr/share/doc/ip", Typeflag: tar.TypeReg, Mode: 0o644},
		{Name: "./usr/lib/py3.1/os.py", Typeflag: tar.TypeReg, Mode: 0o644},
		{Name: "./usr/lib/py3.1/test/x.py", Typeflag: tar.TypeReg, Mode: 0o644},
	} {
		body := "body of " + h.Name
		if h.Typeflag == tar.TypeReg {
			h.Size = int64(len(body))
		}
		require.NoError(t, w.WriteHeader(&h))
		if h.Typeflag == tar.TypeReg {
			fmt.Fprint(w, body)
		}
	}
	require.NoError(t, w.Close())
	files := tree{}
	require.NoError(t, files.read(tar.NewReader(&buf), func(name string) bool { return name != "usr/share/doc/ip" }))
	return files
}

func TestTreeMergesUsr(t *testing.T) {
	files := testTree(t)
	require.Equal(t, "body of ./bin/ip", string(files["usr/bin/ip"].data))
	require.Equal(t, "/usr/bin/ip", string(files["usr/sbin/ip"].data))
	require.Equal(t, "/usr/lib/b/one.so.1.2", string(files["usr/lib/a/one.so.1"].data))
	require.Equal(t, files["usr/bin/ip"], files["usr/bin/same"])
	require.NotContains(t, files, "usr/share/doc/ip")
}

func TestSelectionTakesWhatIsNeeded(t *testing.T) {
	s := newSelection(testTree(t), map[string]bool{"usr/bin/ip": true})
	require.NoError(t, s.takeAll(archive{
		Take: []string{"usr/lib/a/*", "usr/sbin/*"}, Whole: []string{"usr/lib/py3.*"}, Drop: []string{"test"},
	}))
	require.Equal(t, map[string]bool{
		"usr/lib/a/one.so.1":   true,
		"usr/lib/b/one.so.1.2": true, // the target of the link
		"usr/sbin/ip":          true, // its target lies in the archive below
		"usr/lib/py3.1/os.py":  true,
	}, s.taken)
	require.ErrorContains(t, s.takeAll(archive{Take: []string{"usr/bin/forgotten"}}), "usr/bin/forgotten")
}

// An ELF file's shared objects are found: this test's own interpreter or libraries, when it has
// any, else go's.
func TestSharedObjects(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the programs of " + runtime.GOOS + " are not ELF files")
	}
	sh := program(t, "sh")
	data, err := os.ReadFile(sh)
	require.NoError(t, err)
	needed, err := sharedObjects(data)
	require.NoError(t, err)
	t.Log(sh, "needs", needed)
	needed, err = sharedObjects([]byte("#!/bin/sh\n"))
	require.NoError(t, err)
	require.Empty(t, needed)
}

// program returns the path of a program that a test needs. Without it the test skips; with
// GOROCE_REQUIRE_TOOLS, as in CI, it fails.
func program(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil && os.Getenv("GOROCE_REQUIRE_TOOLS") != "" {
		t.Fatal("GOROCE_REQUIRE_TOOLS is set, but ", err)
	}
	if err != nil {
		t.Skip(err)
	}
	return path
}

// The archive must be what cpio(1) understands; where that is not installed, its layout is checked
// alone.
func TestCPIO(t *testing.T) {
	var buf bytes.Buffer
	c := newCPIO(&buf)
	c.add("a/b/file", modeRegular|0o640, []byte("12345"))
	c.add("a/b", modeDir|0o755, nil) // there already
	c.add("a/link", modeSymlink|0o777, []byte("b/file"))
	require.NoError(t, c.close())
	require.Zero(t, buf.Len()%512)
	require.Equal(t, 1, bytes.Count(buf.Bytes(), []byte("a/b\x00")))
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), program(t, "cpio"), "-id", "--quiet")
	cmd.Dir, cmd.Stdin = dir, &buf
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	data, err := os.ReadFile(filepath.Join(dir, "a/link"))
	require.NoError(t, err)
	require.Equal(t, "12345", string(data))
	info, err := os.Stat(filepath.Join(dir, "a/b/file"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o640), info.Mode())
}

// fakeImage puts something that looks like an image into dir.
func fakeImage(t *testing.T, dir, name string, when time.Time, m Manifest, files map[string]string) {
	place := filepath.Join(dir, name)
	require.NoError(t, os.MkdirAll(place, 0o755))
	for file, body := range files {
		require.NoError(t, os.WriteFile(filepath.Join(place, file), []byte(body), 0o644))
	}
	data, err := json.Marshal(m)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(place, manifestFile), data, 0o644))
	require.NoError(t, os.Chtimes(filepath.Join(place, manifestFile), when, when))
}

// Only a whole image of the right recipe is used: not a damaged one, not a temporary folder, not
// another recipe's.
func TestCacheIgnoresWhatIsNotWhole(t *testing.T) {
	dir := t.TempDir()
	require.Nil(t, cachedImage(dir, "abc"))
	now := time.Now()
	sizes := map[string]int64{kernelFile: 3}
	fakeImage(t, dir, "abc-1", now.Add(-3*time.Hour), Manifest{Kernel: "old", Sizes: sizes}, map[string]string{kernelFile: "123"})
	fakeImage(t, dir, "abc-2", now.Add(-2*time.Hour), Manifest{Kernel: "new", Sizes: sizes}, map[string]string{kernelFile: "123"})
	fakeImage(t, dir, "abc-3", now, Manifest{Kernel: "short", Sizes: sizes}, map[string]string{kernelFile: "12"})
	fakeImage(t, dir, "abc-4", now, Manifest{Kernel: "empty"}, nil)
	fakeImage(t, dir, "xyz-1", now, Manifest{Kernel: "other", Sizes: sizes}, map[string]string{kernelFile: "123"})
	fakeImage(t, dir, buildPrefix+"abc-9", now, Manifest{Kernel: "half", Sizes: sizes}, map[string]string{kernelFile: "123"})
	im := cachedImage(dir, "abc")
	require.NotNil(t, im)
	require.Equal(t, "new", im.Manifest.Kernel)
	removeStale(dir)
	require.NoDirExists(t, filepath.Join(dir, buildPrefix+"abc-9"))
	require.DirExists(t, filepath.Join(dir, "abc-2"))
}

func TestCacheLock(t *testing.T) {
	if unsupported != "" {
		t.Skip(unsupported)
	}
	dir := filepath.Join(t.TempDir(), "rxelab")
	unlock, err := lockCache(t.Context(), dir)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = lockCache(ctx, dir)
	require.ErrorIs(t, err, context.Canceled)
	unlock()
	unlock, err = lockCache(t.Context(), dir)
	require.NoError(t, err)
	unlock()
}

// judge stands for testing.TB and records what Require decides.
type judge struct{ verdict, why string }

func (j *judge) Helper()           {}
func (j *judge) Fatal(args ...any) { j.verdict, j.why = "fail", fmt.Sprint(args...) }
func (j *judge) Skip(args ...any)  { j.verdict, j.why = "skip", fmt.Sprint(args...) }

func TestRequireNamesWhatIsMissing(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	for env, verdict := range map[string]string{"": "skip", "1": "fail"} {
		t.Setenv(RequireEnv, env)
		var j judge
		Require(&j)
		require.Equal(t, verdict, j.verdict)
		if unsupported == "" {
			require.Contains(t, j.why, "qemu-system-x86_64 (Debian package qemu-system-x86)")
		}
	}
}

func TestNetemScript(t *testing.T) {
	both := netemScript(Both, " delay 1ms ")
	require.Contains(t, both, "tc qdisc add dev eth0 root netem limit 20000 delay 1ms\n")
	require.Contains(t, both, "tc qdisc add dev ifb0 root netem limit 20000 delay 1ms\n")
	require.NotContains(t, netemScript(FromGuest, "limit 5"), "20000")
	require.NotContains(t, netemScript(FromGuest, "loss 1%"), "ifb0")
	require.NotContains(t, netemScript(Both, ""), " add ")
}
