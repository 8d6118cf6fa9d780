package rsocket

// Keepalive: a sign of life that is asked of the other end's device every so often (section 7). A
// device that does not answer fails the connection, and whoever waits is told.

import "time"

// keepAlive is a timer that begins anew each time.
type keepAlive struct {
	timer *time.Timer
}

// SetKeepAlive sets how often the other end's device is asked for a sign of life; 0 or less is
// never.
func (c *Conn) SetKeepAlive(d time.Duration) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.enter(); err != nil {
		return c.opError("set", err)
	}
	c.alive.set(c, d)
	return c.opError("set", c.leave())
}

func (k *keepAlive) set(c *Conn, period time.Duration) {
	if k.timer != nil {
		k.timer.Stop()
	}
	c.cfg.KeepAlive = period
	if k.timer = nil; period > 0 {
		k.timer = time.AfterFunc(period, c.askForLife)
	}
}

// askForLife is what happens each period.
func (c *Conn) askForLife() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.life.closed() || c.over() || c.alive.timer == nil {
		return
	}
	c.users++
	if c.end.KeepAlive(); !c.wait.leading {
		c.collect()
	}
	c.flush()
	c.users--
	c.alive.timer.Reset(c.cfg.KeepAlive)
}

// collect handles what has completed, without waiting, so that completions of signs of life do not
// pile up. Nobody leads.
func (c *Conn) collect() {
	n, err := c.cq.Poll(c.wait.wcs[:])
	if err != nil {
		c.end.Fail(err)
		return
	}
	c.handle(c.wait.wcs[:n])
}
