package dropin

// iSER: the blocks of a disk by RDMA. tgt's daemon offers a file as a disk, libiscsi's programs
// look at it, and qemu's write it and read it, each over the libraries.
//
// Stages: the daemon, and the disk that it is told to offer; who looks; who writes and reads.

import (
	"crypto/sha256"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/internal/nobody"
)

const (
	diskName = "iqn.2001-04.com.example:disk"
	disk     = "iser://127.0.0.1/" + diskName + "/1"
)

// initiators are who may use the disk: libiscsi's programs and qemu's, by the names that they give
// themselves. tgt 1.0.85 lets nobody have a disk by iSER who is not named, though its addresses may
// be all: "Target not found".
var initiators = []string{"iqn.2007-10.com.github:sahlberg:libiscsi:iscsi-inq",
	"iqn.2007-10.com.github:sahlberg:libiscsi:iscsi-readcapacity16", "iqn.2008-11.org.linux-kvm"}

// offer has tgt's daemon offer a file by iSER, until the test ends.
func offer(t *testing.T, file string) {
	t.Helper()
	socket := "TGT_IPC_SOCKET=" + filepath.Join(nobody.Folder(t), "tgtd")
	daemon := with(t, "udp:127.0.0.1", "tgtd -f --iscsi portal=127.0.0.1:3260")
	said, err := os.Create(filepath.Join(t.TempDir(), "said"))
	require.NoError(t, err)
	daemon.Env, daemon.Stdout, daemon.Stderr = append(daemon.Env, socket), said, said
	daemon.SysProcAttr.Credential = nil // tgtd is root's, who alone may tell it what to do
	require.NoError(t, daemon.Start())
	ended := make(chan error, 1)
	go func() { ended <- daemon.Wait() }()
	t.Cleanup(func() {
		daemon.Process.Kill()
		<-ended
		if text, _ := os.ReadFile(said.Name()); t.Failed() {
			t.Logf("tgtd:\n%s", text)
		}
	})
	admin := func(args ...string) error {
		c := exec.Command("tgtadm", append([]string{"--lld", "iser", "--tid", "1", "--mode"}, args...)...)
		c.Env = append(os.Environ(), socket)
		out, err := c.CombinedOutput()
		t.Logf("tgtadm %v: %s", args, out)
		return err
	}
	for look := time.NewTicker(time.Millisecond); admin("target", "--op", "new", "-T", diskName) != nil; <-look.C {
		select {
		case err := <-ended:
			ended <- err
			t.Fatalf("tgtd has ended: %v", err)
		default:
		}
	}
	require.NoError(t, admin("logicalunit", "--op", "new", "--lun", "1", "-b", file))
	require.NoError(t, admin("target", "--op", "bind", "-I", "ALL"))
	for _, name := range initiators {
		require.NoError(t, admin("target", "--op", "bind", "-Q", name))
	}
}

// TestISER: what is written by iSER is in the file, and what is read is what was written.
func TestISER(t *testing.T) {
	if os.Getenv("GOROCE_PROGRAMS") == "" {
		t.Skip("played by make programs")
	}
	for _, program := range []string{"tgtd", "iscsi-inq", "qemu-img"} {
		needs(t, program)
	}
	if os.Geteuid() != 0 {
		t.Skip("tgtd obeys root alone")
	}
	const size = 16 << 20
	folder := nobody.Folder(t)
	file, source, back := filepath.Join(folder, "disk"), filepath.Join(folder, "source"), filepath.Join(folder, "back")
	content := make([]byte, size)
	require.NoError(t, os.WriteFile(file, content, 0o600))
	rand.NewChaCha8([32]byte{}).Read(content)
	require.NoError(t, os.WriteFile(source, content, 0o644))
	offer(t, file)

	says := func(line string) string {
		out, err := with(t, "udp:127.0.0.2", line).CombinedOutput()
		require.NoError(t, err, "%s: %s", line, out)
		t.Logf("%s\n%s", line, out)
		return string(out)
	}
	require.Regexp(t, `Peripheral Device Type:DIRECT_ACCESS(.*\n)+Vendor:IET`, says("iscsi-inq "+disk))
	require.Contains(t, says("iscsi-readcapacity16 "+disk), "Total size:16777216")
	// libiscsi 1.19.0 has no larger commands by iSER, and crashes.
	const copies = "qemu-img dd -f raw -O raw bs=256k "
	says(copies + "if=" + source + " of=" + disk)
	says(copies + "if=" + disk + " of=" + back)
	for _, f := range []string{file, back} {
		has, err := os.ReadFile(f)
		require.NoError(t, err)
		require.Equal(t, sha256.Sum256(content), sha256.Sum256(has), f)
	}
}
