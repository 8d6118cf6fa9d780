package verbs

import (
	"cmp"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/goroce/goroce/qp"
	"github.com/goroce/goroce/roce/internal/soft"
	"github.com/goroce/goroce/wire"
)

func TestAnswers(t *testing.T) {
	if err := answered("ibv_modify_qp", 0); err != nil {
		t.Error(err)
	}
	want := map[syscall.Errno]error{}
	for kind, errnos := range map[error][]syscall.Errno{
		qp.ErrInvalid:         {syscall.EINVAL, syscall.EFAULT, syscall.EMSGSIZE, syscall.ENOENT},
		qp.ErrLimit:           {syscall.ENOMEM, syscall.ENOSPC, syscall.EMFILE, syscall.ENFILE},
		qp.ErrBusy:            {syscall.EBUSY, syscall.EADDRINUSE},
		errors.ErrUnsupported: {syscall.ENOSYS, syscall.EOPNOTSUPP, syscall.EPROTONOSUPPORT, syscall.ENOTTY},
		soft.ErrUnreachable: {syscall.ENETUNREACH, syscall.EHOSTUNREACH, syscall.ENETDOWN, syscall.EHOSTDOWN, syscall.ETIMEDOUT,
			syscall.EADDRNOTAVAIL},
		os.ErrPermission: {syscall.EPERM, syscall.EACCES}, // by themselves
	} {
		for _, errno := range errnos {
			want[errno] = kind
		}
	}
	for errno := range kinds {
		if want[errno] == nil {
			t.Errorf("%v is not tested", errno)
		}
	}
	for errno, kind := range want {
		for _, result := range []int{int(errno), -int(errno)} {
			err := answered("ibv_modify_qp", result)
			if !errors.Is(err, kind) || !errors.Is(err, errno) || err.Error() != "ibv_modify_qp: "+errno.Error() {
				t.Errorf("%d: %v", result, err)
			}
		}
		if err := Refused("ibv_create_qp", errno); !errors.Is(err, kind) {
			t.Errorf("%v", err)
		}
	}
	full := answeredAs("ibv_post_send", -int(syscall.ENOMEM), map[syscall.Errno]error{syscall.ENOMEM: qp.ErrFull})
	if !errors.Is(full, qp.ErrFull) || errors.Is(full, qp.ErrLimit) {
		t.Errorf("%v", full)
	}
	if err := Refused("ibv_create_qp", nil); err == nil {
		t.Error("an object that is not there is an error, whatever errno says")
	}
}

// TestVerbsAreNamed: whatever C function can fail, the text of its error names the verb.
func TestVerbsAreNamed(t *testing.T) {
	calls, texts := map[string]bool{}, ""
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		texts += string(text)
		for _, m := range regexp.MustCompile(`C\.(?:ibv|goroce)_(\w+)\(`).FindAllStringSubmatch(string(text), -1) {
			calls[m[1]] = true
		}
	}
	if len(calls) < 25 {
		t.Fatalf("only %d calls were found", len(calls))
	}
	// what cannot fail, or may
	for _, quiet := range []string{"get_device_name", "free_device_list", "ack_async_event", "get_async_event", "take_cq_event",
		"query_device_ex"} {
		if !calls[quiet] {
			t.Errorf("%s is not called", quiet)
		}
		delete(calls, quiet)
	}
	renamed := map[string]string{"query_gids": "query_gid_table", "reg_mr": "reg_mr_iova", "read_clock": "query_rt_values_ex"}
	for call := range calls {
		call = cmp.Or(renamed[call], call)
		if !strings.Contains(texts, `"ibv_`+call+`"`) {
			t.Errorf("no error names ibv_%s", call)
		}
	}
}

func TestCounters(t *testing.T) {
	folder := t.TempDir()
	for name, text := range map[string]string{"sent_pkts": "12\n", "out_of_seq_request": "3\n", "np_cnp_sent": "-1\n", "rcvd_pkts": ""} {
		write(t, filepath.Join(folder, name), text)
	}
	s := readCounters(folder)
	if s != (qp.Stats{SentPkts: 12, OutOfSequence: 3}) {
		t.Errorf("%+v", s)
	}
	port := t.TempDir() // of a driver whose packets are counted by the port
	write(t, filepath.Join(port, "counters", "port_xmit_packets"), "7\n")
	write(t, filepath.Join(port, "hw_counters", "rx_icrc_encapsulated"), "8\n")
	write(t, filepath.Join(port, "hw_counters", "out_of_sequence"), "9\n")
	other := qp.Stats{SentPkts: 7, OutOfSequence: 9}
	other.Drops[wire.DropICRC] = 8
	if s := readCounters(filepath.Join(port, "hw_counters")); s != other {
		t.Errorf("%+v", s)
	}
	if d := since(s, qp.Stats{SentPkts: 2}); d != (qp.Stats{SentPkts: 10, OutOfSequence: 3}) {
		t.Errorf("%+v", d)
	}
	if s := readCounters(filepath.Join(folder, "none")); s != (qp.Stats{}) {
		t.Errorf("%+v", s)
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
