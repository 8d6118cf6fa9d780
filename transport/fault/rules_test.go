package fault

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goroce/goroce/transport"
	"github.com/goroce/goroce/transport/internal/porttest"
	"github.com/goroce/goroce/transport/pipe"
	"github.com/goroce/goroce/wire"
)

func TestParse(t *testing.T) {
	rules, err := Parse(" seed=7, tx.SEND:3:drop,rx:*:delay=2ms ,, link:1s:down=300ms,CreateQP:2-:ENOMEM")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range rules {
		got = append(got, r.String())
		if r.seed != 7 {
			t.Errorf("%v has the seed %d", r, r.seed)
		}
	}
	if want := []string{"tx.SEND:3:drop", "rx:*:delay=2ms", "link:1s:down=300ms", "CreateQP:2-:ENOMEM"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if err := Check(rules); err != nil {
		t.Error(err)
	}
}

// TestWrongRules: each is refused, with the rule and what would be right.
func TestWrongRules(t *testing.T) {
	for text, want := range map[string]string{
		"tx":                   "MATCH:NTH:ACTION",
		"tx:1":                 "MATCH:NTH:ACTION",
		"tx::drop":             "MATCH:NTH:ACTION",
		"tx:1:drop:2":          "MATCH:NTH:ACTION",
		"tx:0:drop":            `"0"; want 3, 3-5, 3-, * or 2%`,
		"tx:5-3:drop":          "want 3, 3-5",
		"tx:x:drop":            "want 3, 3-5",
		"tx:-1:drop":           "want 3, 3-5",
		"tx:101%:drop":         "want 3, 3-5",
		"tx:NaN%:drop":         "want 3, 3-5",
		"seed=x":               "whole number",
		"tx:1:explode":         "no such action; there are drop",
		"tx.FOO:1:drop":        `kind "FOO"; there are SEND, WRITE`,
		"tx:1:drop=3":          "without a value",
		"tx:1:delay":           "delay=2ms",
		"tx:1:delay=-2ms":      "delay=2ms",
		"tx:1:late=0":          "late=3",
		"tx:1:ecn":             "want rx",
		"link:1:down=1s":       "link:1s:down=300ms",
		"link:1s:up=1s":        "link:1s:down=300ms",
		"link:1s:down=0s":      "link:1s:down=300ms",
		"link:1s:down=25h":     "up to 24h",
		"tx:1:delay=25h":       "up to 24h",
		"rx.RC_SEND_ONL:1:ecn": `"RC_SEND_ONL"`,
	} {
		rules, err := Parse(text)
		if err == nil {
			err = Check(rules)
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q in it", text, err, want)
		}
	}
}

func TestCounter(t *testing.T) {
	for nth, want := range map[string][]int{
		"1":    {1},
		"3":    {3},
		"2-4":  {2, 3, 4},
		"5-":   {5, 6},
		"*":    {1, 2, 3, 4, 5, 6},
		"0%":   nil,
		"100%": {1, 2, 3, 4, 5, 6},
	} {
		c, err := Rule{Match: "tx", Nth: nth, Action: "drop"}.Count()
		if err != nil {
			t.Fatal(err)
		}
		var got []int
		for i := 1; i <= 6; i++ {
			if c.Next() {
				got = append(got, i)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s means %v, want %v", nth, got, want)
		}
	}
}

// shares returns which of 1000 a rule means.
func shares(t *testing.T, text string) (got []int) {
	rules, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	c, _ := rules[len(rules)-1].Count()
	for i := range 1000 {
		if c.Next() {
			got = append(got, i)
		}
	}
	return got
}

// TestShareIsSeeded: the same list means the same packets, another seed or place in it others.
func TestShareIsSeeded(t *testing.T) {
	once, again := shares(t, "seed=3,tx:10%:drop"), shares(t, "seed=3,tx:10%:drop")
	if !slices.Equal(once, again) || len(once) < 60 || len(once) > 140 {
		t.Errorf("%d and %d of 1000", len(once), len(again))
	}
	if slices.Equal(once, shares(t, "seed=4,tx:10%:drop")) || slices.Equal(once, shares(t, "seed=3,rx:1:drop,tx:10%:drop")) {
		t.Error("other dice show the same")
	}
}

// TestKinds: each kind of packet is found by its name and by no other.
func TestKinds(t *testing.T) {
	made := map[string]wire.Opcode{"SEND": wire.RCSendOnly, "WRITE": wire.RCWriteMiddle, "READ": wire.RCReadRequest,
		"ATOMIC": wire.RCFetchAdd, "RESPONSE": wire.RCReadResponseLast, "ACK": wire.RCAcknowledge, "NAK": wire.RCAcknowledge,
		"RNR": wire.RCAcknowledge, "CNP": wire.CNP, "MAD": wire.UDSendOnly}
	for _, of := range kinds {
		op, ok := made[of.name]
		if !ok {
			t.Errorf("the test has no packet of kind %s", of.name)
			continue
		}
		body := make([]byte, 64)
		dest := uint32(17)
		if of.name == "MAD" {
			dest = 1
		}
		(*wire.BTH)(body).Put(op, 0, 0, wire.DefaultPKey, dest, 1)
		if at := op.Info().Off[wire.HdrAETH]; at != 0 {
			syndrome := map[string]wire.Syndrome{"NAK": wire.SynNAKSeq, "RNR": wire.RNRSyndrome(1)}[of.name]
			(*wire.AETH)(body[at:]).Put(syndrome, 1)
		}
		var p wire.Packet
		if reason := wire.Parse(&wire.Frame{Body: body}, &p); reason != wire.DropNone {
			t.Fatal(reason)
		}
		var found []string
		for _, k := range kinds {
			if k.is(&p) {
				found = append(found, k.name)
			}
		}
		want := []string{of.name}
		if of.name == "MAD" {
			want = []string{"SEND", "MAD"}
		}
		if !slices.Equal(found, want) {
			t.Errorf("a packet of kind %s is %v", of.name, found)
		}
	}
}

// played sends packets 0 to 5 through rules, and returns what arrives, in numbers; -1 is damaged,
// 100 more is marked.
func played(t *testing.T, text string) (got []int, send, recv Counts) {
	rules, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	a, b := porttest.Open(t, pipe.Open, "pipe:"+t.Name()+text+"/10.0.0.1", transport.Options{}),
		porttest.Open(t, pipe.Open, "pipe:"+t.Name()+text+"/10.0.0.2", transport.Options{})
	tx, rx := Wrap(a, Config{Rules: rules}), Wrap(b, Config{Rules: rules})
	batch, path := wire.NewBatch(40, 300), porttest.PathBetween(t, tx, rx, 0, 64)
	for i := range 6 {
		porttest.Put(t, batch, path, i, 40)
	}
	if _, err := tx.Send(batch); err != nil {
		t.Fatal(err)
	}
	for n := 1; n > 0; {
		frames := make([]wire.Frame, 20)
		if n, err = rx.Recv(frames); err != nil {
			t.Fatal(err)
		}
		if _, err := tx.Recv(nil); err != nil {
			t.Fatal(err)
		}
		for i := range n {
			number := -1
			if wire.Verify(&frames[i]) {
				number = porttest.Number(t, &frames[i])
			}
			if frames[i].ECN() == wire.ECNCongestion {
				number += 100
				if h := frames[i].IPv4(); h != nil {
					was := h.Checksum()
					if h.UpdateChecksum(); h.Checksum() != was {
						t.Error("a marked packet has a wrong checksum")
					}
				}
			}
			got = append(got, number)
		}
	}
	s, _ := tx.Counts()
	_, r := rx.Counts()
	if err := tx.Close(); err != nil {
		t.Fatal(err)
	}
	if err := rx.Close(); err != nil {
		t.Fatal(err)
	}
	return got, s, r
}

// TestActions: what each does to the packet that a rule names.
func TestActions(t *testing.T) {
	for text, want := range map[string][]int{
		"tx:3:drop":                      {0, 1, 3, 4, 5},
		"rx:3:drop":                      {0, 1, 3, 4, 5},
		"tx:2-3:drop,tx:5:drop":          {0, 3, 5},
		"tx:3:duplicate":                 {0, 1, 2, 2, 3, 4, 5},
		"tx:3:corrupt":                   {0, 1, -1, 3, 4, 5},
		"rx:3:ecn":                       {0, 1, 102, 3, 4, 5},
		"tx:2:late=2":                    {0, 2, 3, 1, 4, 5},
		"tx.SEND:1:drop":                 {1, 2, 3, 4, 5},
		"tx.ACK:1:drop":                  {0, 1, 2, 3, 4, 5},
		"tx:2:late=2,tx:1:drop,rx:4:ecn": {2, 3, 1, 104, 5},
		"tx:2:late=2,tx:2:duplicate":     {0, 2, 3, 1, 1, 4, 5},
		"tx:2:late=2,tx:2:corrupt":       {0, 2, 3, -1, 4, 5},
		"rx:2:late=2,rx:2:ecn":           {0, 2, 3, 101, 4, 5},
	} {
		if got, _, _ := played(t, text); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", text, got, want)
		}
	}
	if len(actions) != 6 {
		t.Error("an action is not tested")
	}
}

// scene is a port with rules, in a time of the test's own, that sends packets to another.
type scene struct {
	t      *testing.T
	rules  []Rule
	at     time.Time
	tx     *Port
	rx     transport.Port
	path   *wire.Path
	batch  *wire.Batch
	number int
}

func newScene(t *testing.T, text string) *scene {
	rules, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	open := func(address string) transport.Port {
		return porttest.Open(t, pipe.Open, "pipe:"+t.Name()+"/"+address, transport.Options{})
	}
	s := &scene{t: t, rules: rules, at: time.Unix(0, 0), rx: open("10.0.0.2"), batch: wire.NewBatch(40, 300)}
	s.tx = Wrap(open("10.0.0.1"), Config{Rules: rules, Now: func() time.Time { return s.at }})
	s.path = porttest.PathBetween(t, s.tx, s.rx, 0, 64)
	return s
}

func (s *scene) close() {
	s.t.Helper()
	if err := errors.Join(s.tx.Close(), s.rx.Close()); err != nil {
		s.t.Fatal(err)
	}
}

// send sends one packet more; the numbers begin with 0.
func (s *scene) send() {
	s.t.Helper()
	porttest.Put(s.t, s.batch, s.path, s.number, 40)
	s.number++
	n, err := s.tx.Send(s.batch)
	if err != nil || n != 1 {
		s.t.Fatal(n, err)
	}
	s.batch.Drop(n)
}

// expect is what must have arrived since the last time.
func (s *scene) expect(what string, want ...int) {
	s.t.Helper()
	frames := make([]wire.Frame, 20)
	if _, err := s.tx.Recv(frames); err != nil {
		s.t.Fatal(err)
	}
	n, err := s.rx.Recv(frames)
	if err != nil {
		s.t.Fatal(err)
	}
	var got []int
	for i := range n {
		got = append(got, porttest.Number(s.t, &frames[i]))
	}
	if !slices.Equal(got, want) {
		s.t.Errorf("%s: %v has arrived, want %v", what, got, want)
	}
}

// TestDelay: a delayed packet comes when its time is over, which ends a Wait.
func TestDelay(t *testing.T) {
	s := newScene(t, "tx:1:delay=2ms")
	s.send()
	s.send()
	s.expect("one is delayed", 1)
	if d, ok := s.tx.send.untilDue(); !ok || d != 2*time.Millisecond {
		t.Errorf("a Wait would last %v", d)
	}
	s.at = s.at.Add(2 * time.Millisecond)
	s.expect("its time has come", 0)
	if _, ok := s.tx.send.untilDue(); ok {
		t.Error("something is still due")
	}
	s.close()
}

// alarmed notes the alarm that is set at its seats.
type alarmed struct {
	transport.Port
	transport.Seats
	alarm time.Duration
}

func (a *alarmed) SetAlarm(d time.Duration)        { a.alarm = d }
func (a *alarmed) Watch(_ transport.Watcher) error { return nil }

// TestDelayAlarm: who watches the port is woken for the lane's alarm and for a delayed packet,
// whichever comes first.
func TestDelayAlarm(t *testing.T) {
	s := newScene(t, "tx:1:delay=2ms,tx:2:delay=4ms")
	inner := &alarmed{Port: s.tx.Port}
	s.tx = Wrap(inner, Config{Rules: s.rules, Now: func() time.Time { return s.at }})
	seats := transport.SeatsOf(s.tx)
	is := func(what string, want time.Duration) {
		t.Helper()
		if inner.alarm != want {
			t.Errorf("%s: the alarm is in %v, want %v", what, inner.alarm, want)
		}
	}
	seats.SetAlarm(-1)
	is("nothing is held", -1)
	s.send()
	is("one is held", 2*time.Millisecond)
	seats.SetAlarm(time.Millisecond)
	is("the lane's is earlier", time.Millisecond)
	seats.SetAlarm(5 * time.Millisecond)
	s.send()
	is("the first is due first", 2*time.Millisecond)
	for want, alarm := range []time.Duration{2 * time.Millisecond, time.Millisecond} {
		s.at = s.at.Add(2 * time.Millisecond)
		s.expect("its time has come", want)
		if err := seats.Watch(transport.Background); err != nil {
			t.Fatal(err)
		}
		is("what comes next", alarm)
	}
	s.close()
}

// TestLink: while the link is down nothing passes, and Info and the events say so.
func TestLink(t *testing.T) { synctest.Test(t, playLink) }

func playLink(t *testing.T) {
	s := newScene(t, "link:1s:down=1s")
	s.at = time.Unix(1, 0)
	s.send()
	s.expect("down")
	if s.tx.Info().Up {
		t.Error("the link is up")
	}
	s.at = time.Unix(2, 0)
	s.send()
	s.expect("up again", 1)
	if c, _ := s.tx.Counts(); !s.tx.Info().Up || c.Lost != 1 {
		t.Errorf("%+v", c)
	}
	for _, want := range []transport.Event{transport.LinkDown, transport.LinkUp} {
		if e := <-s.tx.Events(); e != want {
			t.Errorf("%v, want %v", e, want)
		}
	}
	s.close()
	if _, open := <-s.tx.Events(); open {
		t.Error("the events of a closed port go on")
	}
}

// TestDelayOfMany: all that a rule names are delayed, and come in their order when it is time, as
// many at once as there is room for.
func TestDelayOfMany(t *testing.T) {
	s := newScene(t, "tx:*:delay=1h")
	var all []int
	for i := range 300 {
		s.send()
		all = append(all, i)
	}
	s.expect("an hour before")
	s.at = s.at.Add(time.Hour)
	var got []int
	for frames := make([]wire.Frame, 400); len(got) < len(all); {
		if _, err := s.tx.Recv(nil); err != nil {
			t.Fatal(err)
		}
		n, err := s.rx.Recv(frames)
		if n == 0 || err != nil {
			t.Fatal(n, err)
		}
		for i := range n {
			got = append(got, porttest.Number(t, &frames[i]))
		}
	}
	if !slices.Equal(got, all) {
		t.Errorf("%v", got)
	}
	s.close()
}

// TestDelayOverOutage: what is due while the link is down is lost.
func TestDelayOverOutage(t *testing.T) {
	s := newScene(t, "tx:1:delay=500ms,link:200ms:down=1s")
	s.send()
	s.at = s.at.Add(600 * time.Millisecond)
	s.expect("the link is down")
	s.at = s.at.Add(time.Second)
	s.expect("the link is up")
	if c, _ := s.tx.Counts(); c.Lost != 1 {
		t.Errorf("%+v", c)
	}
	s.close()
}

// TestOutages: what overlaps or adjoins is one outage, so that the link comes up once.
func TestOutages(t *testing.T) {
	rules, err := Parse("link:5s:down=1s,link:1s:down=3s,link:2s:down=1s,link:4s:down=500ms,link:24h:down=24h")
	if err != nil {
		t.Fatal(err)
	}
	got, err := outages(rules)
	want := []outage{{time.Second, 4500 * time.Millisecond}, {5 * time.Second, 6 * time.Second}, {longest, 2 * longest}}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, %v", got, err)
	}
}
