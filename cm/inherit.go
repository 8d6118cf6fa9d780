package cm

// What is left of a connection whose owner has ended without a word, as a process does that is
// killed: its peer must hear of that from somebody (package roce/hub has such a machine).
// Stages: what is left; taking it over.

// Estate is such a connection, which was established or whose REP was on its way.
type Estate struct {
	Path                Path
	LocalID, RemoteID   uint32 // communication IDs
	LocalQPN, RemoteQPN uint32
}

// Inherit takes a connection over that another machine had for the same device, to end it: the peer
// is sent a DREQ, again if need be, and the IDs are remembered as those of a connection of ours.
// One whose ID the machine has already is left as it is. ErrLimit says that the machine has
// Config.MaxConns connections: the peer hears nothing then, until it sends something itself.
func (m *Machine) Inherit(now Time, e *Estate) error {
	m.now = now
	if e.LocalID == 0 || m.conns[e.LocalID] != nil {
		return nil
	}
	if err := m.room(); err != nil {
		return err
	}
	lifetime := span(DefaultPacketLifetime)
	c := &Conn{path: e.Path.or64(), localID: e.LocalID, remoteID: e.RemoteID, own: ConnParam{QPN: e.LocalQPN},
		theirs: ConnParam{QPN: e.RemoteQPN}, retries: DefaultMaxRetries, hold: 2 * lifetime}
	c.timeout = 2*lifetime + span(DefaultResponseTimeout)
	c.linger = 2 * c.timeout
	m.add(c, StateEstablished)
	c.Close(now)
	return nil
}

// Knows tells whether a communication ID is that of a connection or query of the machine.
func (m *Machine) Knows(id uint32) bool { return m.conns[id] != nil }
