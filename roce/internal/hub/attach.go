package hub

// Which devices of this process have their slot of a hub.

import "sync"

// clients are those of the devices of this process.
var clients sync.Map // of a device: *Client

// Attach says that a device has its slot of a client; nil ends that.
func Attach(device any, c *Client) {
	if c == nil {
		clients.Delete(device)
	} else {
		clients.Store(device, c)
	}
}

// Of is the client of a device, nil if it is not at a hub.
func Of(device any) *Client {
	c, ok := clients.Load(device)
	if !ok {
		return nil
	}
	return c.(*Client)
}
