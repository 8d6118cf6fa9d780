// Package rsocket is a stream of bytes over RDMA: a net.Conn and a net.Listener that speak the
// protocol of librdmacm's rsockets, so that the other end may be this package, a C program that
// uses rsocket(7), or any program that is run with librspreload.so. The protocol is in
// docs/rsocket.md.
//
//	l, err := rsocket.Listen(ctx, ":8080", nil)             // l.Accept, or http.Serve(l, handler)
//	c, err := rsocket.Dial(ctx, "192.0.2.1:8080")           // c.Read, c.Write, c.CloseWrite ...
//	p, err := rsocket.ListenPacket(ctx, ":7174", nil)       // datagrams: p.ReadFrom, p.WriteTo
//
//	app ── Read, Write ──▶ Conn ──▶ internal/stream: what may be sent, what has come
//	                        │  ▲
//	        work requests   ▼  │  completions
//	                      roce.QP, roce.CQ
//
// # Who does the work
//
// Whoever is there, as in package roce. A call that finds what it needs does not touch the
// completion queue. One that has to wait leads: it alone takes completions, for itself and for the
// calls that wait beside it, which sleep until the leader tells them. A connection that nobody
// reads or writes has no goroutine, and costs no processor time; Config.Polling says how a leader
// waits.
//
// A program with an event loop of its own asks for a descriptor ([Conn.FD], [Listener.FD],
// [Socket.FD]), which says what a TCP socket's would, and calls what does not wait: TryRead,
// TryPeek, TryWrite, TryAccept, and Connect of a [Socket]. Then a goroutine leads. docs/rsocket.md,
// section 10, has the call here for each of rsocket(7).
//
// As with all that polls now and then (roce.CQ.Poll), what a call has sent may wait for the next
// call, for up to a millisecond, if those before it have come one right after the other.
//
// # What is not as with TCP
//
// A Conn is a net.Conn whose errors are those of TCP: net.ErrClosed, os.ErrDeadlineExceeded,
// io.EOF, syscall.EADDRINUSE, EADDRNOTAVAIL, ECONNREFUSED, ECONNRESET, EPIPE and ETIMEDOUT, in a
// *net.OpError. But:
//
//   - No kernel goes on for a process. Close waits until what was written has arrived, unless
//     Config.Linger says otherwise; and the end of a process that was killed is noticed by signs of
//     life, every Config.KeepAlive, and the some 10 s in which they are repeated.
//   - Addresses are of type *Addr, which has the fields and methods of *net.TCPAddr. There is no
//     SyscallConn: a descriptor says when, and has no bytes.
//   - Two processes on one machine need an address each, such as 127.0.0.1 and 127.0.0.2, which
//     Dial takes by itself, or a device of a hub, "hub:127.0.0.1", in Options.Devices
//     (docs/library.md).
//   - A connection has half a megabyte of registered memory: Config.SendBuffer and ReceiveBuffer.
//   - net.Buffers are written together by Conn.WriteBuffers; their own WriteTo writes one by one.
//
// # Without copies
//
// Write copies to registered memory and returns; Read, and io.Copy by way of [Conn.WriteTo], copy
// from it, so that what they give is the application's alone. [Conn.Alloc] gives registered memory
// to write from without a copy, [Conn.PeekShared] shows what has come where it is, and where the
// other end can still change it, and [Conn.Expose] lets the other end's [Conn.WriteAt] write into
// memory of the application directly (riomap and riowrite of librdmacm).
package rsocket
