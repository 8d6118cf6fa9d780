//go:build !linux

package hub

import (
	"context"
	"errors"

	"github.com/goroce/goroce/cm"
	"github.com/goroce/goroce/transport"
	"github.com/goroce/goroce/wire"
)

// Client is for Linux, whose kernel steers packets to processes.
type Client struct{}

// Open refuses.
func Open(context.Context, string, int, int, bool) (*Client, error) {
	return nil, errors.New("several processes with one address need Linux")
}

// Has says no.
func Has(context.Context, string, int) bool { return false }

// Ports, Deck, Reports, TakesIn, Foreign, Listen, Unlisten and Close are of none.
func (*Client) Ports(string, transport.Options) ([]transport.Port, error) { return nil, nil }
func (*Client) Deck() []byte                                              { return nil }
func (*Client) Reports(func() Report)                                     {}
func (*Client) TakesIn(func(*wire.Frame) bool)                            {}
func (*Client) Foreign(*wire.Frame)                                       {}
func (*Client) Listen(Service) (taken bool, err error)                    { return false, nil }
func (*Client) Unlisten(Service)                                          {}
func (*Client) Close() error                                              { return nil }

// QP1 is of none.
type QP1 struct{ *Client }

func (QP1) CommID(drawn uint32) uint32                           { return drawn }
func (QP1) Ready() <-chan struct{}                               { return nil }
func (QP1) Receive(func(cm.Path, []byte)) (more bool, err error) { return false, nil }
func (QP1) Room() bool                                           { return false }
func (QP1) Send(cm.Path, *wire.MAD)                              {}
