//go:build linux

package stage

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestTogether(t *testing.T) {
	s := newStage(t)
	needs(t, "taskset")
	where := Program{Args: []string{"sh", "-c", "ls /sys/class/net; grep Cpus_allowed_list /proc/self/status"}}
	o, err := s.RunTogether(context.Background(), Play{Server: where, Client: where, Limit: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		said []byte
		cpu  int
	}{{o.Server, s.B.CPU}, {o.Client, s.A.CPU}} {
		for _, want := range []string{s.A.Interface, fmt.Sprintf("\t%d\n", c.cpu)} {
			if !strings.Contains(string(c.said), want) {
				t.Errorf("%q is not in %q", want, c.said)
			}
		}
	}
}
