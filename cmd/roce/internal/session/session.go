// Package session is what every test program of this command does around its test: open the right
// device, wait for completions without waiting for ever, and explain a failure to the person at the
// terminal.
//
// Stages: open a device by name or by the address that leads to the peer (this file), record what
// it sends, gets and does (record.go), wait (wait.go), explain (failure.go).
package session

import (
	"errors"
	"fmt"
	"net/netip"
	"syscall"

	"github.com/goroce/goroce/internal/route"
	"github.com/goroce/goroce/roce"
	"github.com/goroce/goroce/transport"
	"github.com/goroce/goroce/transport/capture"
)

// Options choose a device and what is recorded of it.
type Options struct {
	Dev      string // device name, "udp:eth0"; "": the address that leads to the peer
	GIDIndex int
	Lanes    int            // roce.Config.Lanes
	Pcap     string         // file for a packet capture
	Records  bool           // what the device does goes into that file too, or stays in it
	Watch    PortMiddleware // sees every packet; nil for none
	Faults   string         // roce.Config.Faults

	Transport transport.Options // for the port
}

// CheckFaults says what is wrong with Faults: now, and not when the peer has come.
func (o *Options) CheckFaults() error {
	if err := roce.CheckFaults(o.Faults); err != nil {
		return fmt.Errorf("--fault: %w", err)
	}
	return nil
}

// PortMiddleware wraps a device's port.
type PortMiddleware func(transport.Port) transport.Port

// Session is an open device with its port's attributes.
type Session struct {
	*roce.Device
	GID  roce.GID
	Port roce.PortAttr

	closers []func() error
	records *recording
	lent    bool // the device is somebody else's
}

// loopbacks is how many addresses of 127.0.0.0/8 are tried: two ends on one machine need one each.
const loopbacks = 32

// Open opens the device that the options name, or the one with the local address over which the
// peer was met.
func Open(opt Options, local netip.Addr) (*Session, error) {
	if opt.Dev != "" {
		return open(opt.Dev, opt)
	}
	if !local.Is4() || !local.IsLoopback() {
		return openAt(local, opt)
	}
	var first error
	for range loopbacks {
		s, err := openAt(local, opt)
		if err == nil || errors.Is(err, errFile) {
			return s, err
		}
		if first == nil {
			first = err
		}
		local = local.Next()
	}
	return nil, fmt.Errorf("no free address among %d of 127.0.0.0/8; the first said: %w", loopbacks, first)
}

// openAt opens the device of an address; that which processes share, if they do.
func openAt(addr netip.Addr, opt Options) (*Session, error) {
	s, err := open("udp:"+addr.String(), opt)
	if errors.Is(err, syscall.EADDRINUSE) && shared(addr) {
		return open("hub:"+addr.String(), opt)
	}
	return s, err
}

func open(name string, opt Options) (*Session, error) {
	s := &Session{}
	if err := s.open(name, opt); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

func (s *Session) open(name string, opt Options) (err error) {
	watch := opt.Watch
	var sink *capture.Pcapng
	if opt.Pcap != "" {
		if sink, watch, err = s.capture(opt.Pcap, watch); err != nil {
			return err
		}
	}
	cfg := roce.Config{Wrap: watch, Lanes: opt.Lanes, Transport: opt.Transport, Faults: opt.Faults}
	if opt.Records {
		cfg.Records = recordsKept
	}
	if s.Device, err = roce.Open(name, &cfg); err != nil {
		return err
	}
	if opt.Records && sink != nil {
		if err := s.record(sink); err != nil {
			return err
		}
	}
	s.Port = s.QueryPort()
	s.GID, err = s.QueryGID(opt.GIDIndex)
	return err
}

// PathMTU is the largest path MTU that the port takes, and the route to the peer if the system
// knows one: an ICMP message may have told it that a link on the way takes less.
func (s *Session) PathMTU(peer netip.Addr) roce.MTU {
	own := s.GID.Addr()
	r, err := route.To(peer, own)
	if err != nil || r.MTU() == 0 {
		return s.Port.ActiveMTU
	}
	return min(r.MTU(), s.Port.ActiveMTU)
}

// On is a session on a device that somebody else has opened, and closes.
func On(dev *roce.Device) (s *Session, err error) {
	s = &Session{Device: dev, Port: dev.QueryPort(), lent: true}
	s.GID, err = dev.QueryGID(0)
	return s, err
}

// Notes say which kind of port the device has, if it had the choice, and which features it does
// without.
func (s *Session) Notes() (notes []string) {
	info := s.PortInfo()
	if info.Why != "" {
		notes = append(notes, s.Name()+" is "+info.Why)
	}
	for _, d := range info.Degraded {
		notes = append(notes, s.Name()+" is "+d.String())
	}
	return notes
}

// Close closes the device, then what listened to it.
func (s *Session) Close() error {
	var errs []error
	if s.records != nil {
		errs = append(errs, s.records.end())
	}
	if s.Device != nil && !s.lent {
		errs = append(errs, s.Device.Close())
	}
	for _, c := range s.closers {
		errs = append(errs, c())
	}
	return errors.Join(errs...)
}
