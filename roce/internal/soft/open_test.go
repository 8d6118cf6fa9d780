package soft

// What a configuration makes of a device.

import (
	"testing"

	"github.com/goroce/goroce/qp"
	"github.com/goroce/goroce/transport"
)

// The traffic class that most packets have is the socket's own, which costs nothing a message.
func TestECNIsTheSockets(t *testing.T) {
	for _, c := range []struct {
		cfg  Config
		want uint8
	}{
		{Config{}, 2},
		{Config{NoECN: true}, 0},
		{Config{Transport: transport.Options{TrafficClass: 0x68}}, 0x6a},
		{Config{Transport: transport.Options{TrafficClass: 0x69}}, 0x69},
		{Config{Transport: transport.Options{TrafficClass: 0x68}, NoECN: true}, 0x68},
	} {
		d, err := Open("pipe:tos", c.cfg)
		must(t, err)
		if got := d.cfg.Transport.TrafficClass; got != c.want {
			t.Errorf("%+v: the port is opened with %#x", c.cfg, got)
		}
		must(t, d.Close())
	}
}

// speedPort is a port on an interface of some speed.
type speedPort struct {
	transport.Port
	mbps int
}

func (p speedPort) Info() transport.Info {
	i := p.Port.Info()
	i.SpeedMbps = p.mbps
	return i
}

func TestLineRate(t *testing.T) {
	for mbps, want := range map[int]uint64{0: qp.DefaultCongestion.LineRate, 10: qp.DefaultCongestion.LineRate, 25000: 25e9} {
		d, err := Open("pipe:speed", Config{Wrap: func(p transport.Port) transport.Port { return speedPort{p, mbps} }})
		must(t, err)
		c := d.congestion()
		if c.LineRate != want {
			t.Errorf("interface of %d Mbit/s: line rate %d", mbps, c.LineRate)
		}
		c.LineRate = qp.DefaultCongestion.LineRate
		if c != qp.DefaultCongestion {
			t.Errorf("%+v", c)
		}
		must(t, d.Close())
	}
	own := qp.CongestionParams{LineRate: 7e9}
	d, err := Open("pipe:speed", Config{Congestion: own})
	must(t, err)
	if got := d.congestion(); got != own {
		t.Errorf("%+v", got)
	}
	must(t, d.Close())
}
