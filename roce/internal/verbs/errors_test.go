package verbs

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/goroce/goroce/qp"
	"github.com/goroce/goroce/roce/internal/soft"
)

func TestAnswers(t *testing.T) {
	if err := answered("ibv_modify_qp", 0); err != nil {
		t.Error(err)
	}
	for _, c := range []struct {
		errno syscall.Errno
		kind  error
	}{
		{syscall.EINVAL, qp.ErrInvalid}, {syscall.ENOMEM, qp.ErrLimit}, {syscall.EBUSY, qp.ErrBusy},
		{syscall.EOPNOTSUPP, errors.ErrUnsupported}, {syscall.ENOSYS, errors.ErrUnsupported},
		{syscall.EHOSTUNREACH, soft.ErrUnreachable}, {syscall.ETIMEDOUT, soft.ErrUnreachable},
	} {
		for _, result := range []int{int(c.errno), -int(c.errno)} {
			err := answered("ibv_modify_qp", result)
			if !errors.Is(err, c.kind) || !errors.Is(err, c.errno) || err.Error() != "ibv_modify_qp: "+c.errno.Error() {
				t.Errorf("%d: %v", result, err)
			}
		}
		if err := refused("ibv_create_qp", c.errno); !errors.Is(err, c.kind) {
			t.Errorf("%v", err)
		}
	}
	full := answeredAs("ibv_post_send", -int(syscall.ENOMEM), map[syscall.Errno]error{syscall.ENOMEM: qp.ErrFull})
	if !errors.Is(full, qp.ErrFull) || errors.Is(full, qp.ErrLimit) {
		t.Errorf("%v", full)
	}
	if err := refused("ibv_create_qp", nil); err == nil {
		t.Error("an object that is not there is an error, whatever errno says")
	}
}

func TestCounters(t *testing.T) {
	folder := t.TempDir()
	for name, text := range map[string]string{"sent_pkts": "12\n", "out_of_seq_request": "3\n", "np_cnp_sent": "-1\n", "rcvd_pkts": ""} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	s := readCounters(folder)
	if s != (qp.Stats{SentPkts: 12, OutOfSequence: 3}) {
		t.Errorf("%+v", s)
	}
	if d := since(s, qp.Stats{SentPkts: 2}); d != (qp.Stats{SentPkts: 10, OutOfSequence: 3}) {
		t.Errorf("%+v", d)
	}
	if s := readCounters(filepath.Join(folder, "none")); s != (qp.Stats{}) {
		t.Errorf("%+v", s)
	}
}
