//go:build linux

package raw

// UDP as a Go program has it: package net, a goroutine that reads and sleeps until something comes.

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"time"
)

type netLink struct {
	conn    *net.UDPConn
	peer    netip.AddrPort
	out, in [2048]byte
}

func overNet(e End) (link, error) {
	conn, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(netip.AddrPortFrom(e.Local, Port)))
	if err != nil {
		return nil, err
	}
	l := &netLink{conn: conn, peer: netip.AddrPortFrom(e.Peer, Port)}
	return l, conn.SetReadDeadline(time.Now().Add(patience))
}

func (l *netLink) close()                     { l.conn.Close() }
func (l *netLink) segment(i, size int) []byte { return l.out[i*size:][:size] }

func (l *netLink) send(n, size int) (bool, error) {
	_, err := l.conn.WriteToUDPAddrPort(l.out[:n], l.peer)
	return err == nil, err
}

// recv waits. It moves the deadline only when that has come: a program that waits for ever would
// have none.
func (l *netLink) recv() ([]byte, int, error) {
	n, _, err := l.conn.ReadFromUDPAddrPort(l.in[:])
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return nil, 0, l.conn.SetReadDeadline(time.Now().Add(patience))
	}
	return l.in[:n], n, err
}
