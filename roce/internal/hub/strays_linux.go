package hub

// Packets that come to another process than their own, as a process has them: the hub takes those
// of others, and brings its own.

import "github.com/goroce/goroce/wire"

// TakesIn has f take in packets of the device that came to other processes. It is called by another
// goroutine, not any more when TakesIn has returned for another f.
func (c *Client) TakesIn(f func(f *wire.Frame) bool) {
	c.taking.Lock()
	defer c.taking.Unlock()
	c.takesIn = f
}

// takeFrame gives the device such a packet.
func (c *Client) takeFrame(f *wire.Frame) {
	c.taking.Lock()
	defer c.taking.Unlock()
	if c.brought++; c.takesIn == nil || !c.takesIn(f) {
		c.noRoom++
	}
}

// Foreign has the hub bring a packet to the process whose it is. It does not wait: what finds no
// hub, or no room, is lost, as on any network.
func (c *Client) Foreign(f *wire.Frame) {
	var conn *Conn
	if c.mu.TryLock() { // whoever has it may wait for the hub
		conn = c.conn
		c.mu.Unlock()
	}
	if conn == nil || !conn.SayFrame(f) {
		c.foreignLost.Add(1)
	}
}
