package roce_test

// What programs do most, a short example each: send, read, count, tell of a write, be told of an
// error, sleep, share receives, send datagrams, find a peer, fail on purpose. They run between two
// devices in memory ("pipe:"); with other names, such as "udp:192.0.2.1", nothing else changes.

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"

	"github.com/goroce/goroce/roce"
)

// node is a device with what most programs have one of.
type node struct {
	dev    *roce.Device
	pd     *roce.PD
	cq     *roce.CQ
	qp     *roce.QP
	mr     *roce.MR
	memory []byte
}

// newNode opens a device and makes a queue pair and 4096 bytes of registered memory.
func newNode(name string, attr roce.QPInitAttr) *node {
	dev, err := roce.Open(name, nil)
	check(err)
	n := &node{dev: dev, memory: make([]byte, 4096)}
	n.pd, err = dev.AllocPD()
	check(err)
	n.cq, err = dev.CreateCQ(roce.CQInitAttr{CQE: 64})
	check(err)
	attr.SendCQ, attr.RecvCQ = n.cq, n.cq
	n.qp, err = n.pd.CreateQP(attr)
	check(err)
	n.mr, err = n.pd.RegMR(n.memory, roce.LocalWrite|roce.RemoteWrite|roce.RemoteRead|roce.RemoteAtomic)
	check(err)
	return n
}

// connected makes two nodes whose queue pairs are connected with each other.
func connected(pipe string) (a, b *node) {
	a, b = newNode("pipe:"+pipe, roce.QPInitAttr{}), newNode("pipe:"+pipe, roce.QPInitAttr{})
	check(a.qp.Connect(context.Background(), b.qp.Endpoint(), nil))
	check(b.qp.Connect(context.Background(), a.qp.Endpoint(), nil))
	return a, b
}

// completion waits for one.
func (n *node) completion() roce.WC {
	var wcs [1]roce.WC
	_, err := n.cq.Wait(context.Background(), wcs[:])
	check(err)
	return wcs[0]
}

// close closes things in the order in which they were made, the newest first.
func (n *node) close() {
	check(n.mr.Close())
	check(n.qp.Close())
	check(n.cq.Close())
	check(n.pd.Close())
	check(n.dev.Close())
}

// SEND and RECV: the receiver says where messages go, by receives that it has posted before they
// come; both ends have a completion.
func ExampleQP_PostRecv() {
	a, b := connected("send")
	defer a.close()
	defer b.close()
	check(b.qp.PostRecv(roce.RecvWR{WRID: 7, SGL: []roce.SGE{b.mr.SGE(0, 1000)}}))

	copy(a.memory, "hello")
	check(a.qp.PostSend(roce.SendWR{WRID: 1, Opcode: roce.WRSend, Flags: roce.SendSignaled, SGL: []roce.SGE{a.mr.SGE(0, 5)}}))

	wc := b.completion()
	fmt.Printf("receive %d: %v, %q\n", wc.WRID, wc.Status, b.memory[:wc.ByteLen])
	wc = a.completion()
	fmt.Printf("request %d: %v\n", wc.WRID, wc.Status)
	// Output:
	// receive 7: success, "hello"
	// request 1: success
}

// An RDMA READ fetches memory of the peer, whose program does nothing.
func ExampleQP_PostSend_read() {
	a, b := connected("read")
	defer a.close()
	defer b.close()
	copy(b.memory[100:], "the peer's bytes")

	check(a.qp.PostSend(roce.SendWR{Opcode: roce.WRRead, Flags: roce.SendSignaled, SGL: []roce.SGE{a.mr.SGE(0, 16)},
		RemoteAddr: b.mr.Addr() + 100, RKey: b.mr.RKey()}))
	wc := a.completion()
	fmt.Printf("%v: %s\n", wc.Status, a.memory[:16])
	// Output: success: the peer's bytes
}

// Fetch-and-add counts in the peer's memory, and brings back what was there. Numbers are in the
// byte order of the machine.
func ExampleQP_PostSend_fetchAndAdd() {
	a, b := connected("count")
	defer a.close()
	defer b.close()
	binary.NativeEndian.PutUint64(b.memory, 41)

	check(a.qp.PostSend(roce.SendWR{Opcode: roce.WRAtomicFetchAndAdd, Flags: roce.SendSignaled, SGL: []roce.SGE{a.mr.SGE(0, 8)},
		RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey(), CompareAdd: 1}))
	wc := a.completion()
	fmt.Println(wc.Status, binary.NativeEndian.Uint64(a.memory), binary.NativeEndian.Uint64(b.memory))
	// Output: success 41 42
}

// A WRITE with immediate puts bytes where the writer wants them, and tells the peer: it takes a
// receive, whose completion has 32 bits of the writer's choice.
func ExampleQP_PostSend_writeWithImm() {
	a, b := connected("imm")
	defer a.close()
	defer b.close()
	check(b.qp.PostRecv(roce.RecvWR{WRID: 7})) // it needs no memory

	copy(a.memory, "block 12")
	check(a.qp.PostSend(roce.SendWR{Opcode: roce.WRWriteWithImm, SGL: []roce.SGE{a.mr.SGE(0, 8)},
		RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey(), Imm: 12}))
	wc := b.completion()
	fmt.Printf("%v, immediate %d, %d bytes: %s\n", wc.Opcode, wc.Imm, wc.ByteLen, b.memory[:8])
	// Output: RECV_RDMA_WITH_IMM, immediate 12, 8 bytes: block 12
}

// What is refused ends as a completion with a status, and both queue pairs are in the error state;
// the peer's program is told by an asynchronous event.
func ExampleWCStatus() {
	a, b := connected("refused")
	defer a.close()
	defer b.close()
	check(a.qp.PostSend(roce.SendWR{WRID: 1, Opcode: roce.WRWrite, Flags: roce.SendSignaled, SGL: []roce.SGE{a.mr.SGE(0, 8)},
		RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey() + 1}))
	wc := a.completion()
	fmt.Printf("request %d: %v (%d)\n", wc.WRID, wc.Status, wc.Status) // roce trace explain 10
	event, err := b.dev.Events().Get(context.Background())
	check(err)
	fmt.Println(event.Type == roce.EventQPAccessErr, a.qp.State(), b.qp.State())
	// Output:
	// request 1: remote access error (10)
	// true ERR ERR
}

// Several completion queues can share a channel, which says which of them has something. The order
// that loses nothing: arm, poll until the queue is empty, then sleep.
func ExampleCompChannel() {
	a, b := connected("channel")
	defer a.close()
	defer b.close()
	channel, err := b.dev.CreateCompChannel()
	check(err)
	defer channel.Close()
	cq, err := b.dev.CreateCQ(roce.CQInitAttr{CQE: 16, Channel: channel})
	check(err)
	defer cq.Close()
	server, err := b.pd.CreateQP(roce.QPInitAttr{SendCQ: cq, RecvCQ: cq})
	check(err)
	defer server.Close()
	client, err := a.pd.CreateQP(roce.QPInitAttr{SendCQ: a.cq})
	check(err)
	defer client.Close()
	check(server.Connect(context.Background(), client.Endpoint(), nil))
	check(client.Connect(context.Background(), server.Endpoint(), nil))
	check(server.PostRecv(roce.RecvWR{WRID: 7, SGL: []roce.SGE{b.mr.SGE(0, 100)}}))

	check(cq.ReqNotify(false))
	var wcs [16]roce.WC
	n, err := cq.Poll(wcs[:])
	check(err)
	check(client.PostSend(roce.SendWR{Opcode: roce.WRSend, Flags: roce.SendInline, Inline: []byte("wake up")}))
	for n == 0 {
		ready, err := channel.Wait(context.Background())
		check(err)
		n, err = ready.Poll(wcs[:])
		check(err)
	}
	fmt.Printf("receive %d: %s\n", wcs[0].WRID, b.memory[:wcs[0].ByteLen])
	// Output: receive 7: wake up
}

// Many queue pairs can take their receives from one queue.
func ExampleSRQ() {
	a, b := connected("srq")
	defer a.close()
	defer b.close()
	srq, err := b.pd.CreateSRQ(roce.SRQInitAttr{MaxWR: 128, MaxSGE: 1})
	check(err)
	defer srq.Close()
	for i := range 3 {
		check(srq.PostRecv(roce.RecvWR{WRID: uint64(i), SGL: []roce.SGE{b.mr.SGE(100*i, 100)}}))
	}
	for i := range 2 {
		client, err := a.pd.CreateQP(roce.QPInitAttr{SendCQ: a.cq})
		check(err)
		defer client.Close()
		server, err := b.pd.CreateQP(roce.QPInitAttr{SendCQ: b.cq, RecvCQ: b.cq, SRQ: srq})
		check(err)
		defer server.Close()
		check(server.Connect(context.Background(), client.Endpoint(), nil))
		check(client.Connect(context.Background(), server.Endpoint(), nil))
		check(client.PostSend(roce.SendWR{Opcode: roce.WRSend, Flags: roce.SendInline, Inline: []byte{'A' + byte(i)}}))
		wc := b.completion()
		fmt.Printf("receive %d: %c, from its own queue pair: %v\n", wc.WRID, b.memory[100*wc.WRID], wc.QPN == server.QPN())
	}
	// Output:
	// receive 0: A, from its own queue pair: true
	// receive 1: B, from its own queue pair: true
}

// Datagrams: one queue pair talks to any other, by an address handle, its number and its Q_Key. The
// first 40 bytes of a receive are for the sender's IP header, by which it can be answered.
func ExamplePD_CreateAH() {
	const qkey = 0x11111111
	a, b := newNode("pipe:ud", roce.QPInitAttr{Type: roce.UD}), newNode("pipe:ud", roce.QPInitAttr{Type: roce.UD})
	defer a.close()
	defer b.close()
	check(a.qp.Activate(qkey))
	check(b.qp.Activate(qkey))
	check(b.qp.PostRecv(roce.RecvWR{SGL: []roce.SGE{b.mr.SGE(0, roce.GRHSize+1000)}}))

	ah, err := a.pd.CreateAH(context.Background(), roce.AHAttr{DGID: b.qp.Endpoint().GID})
	check(err)
	defer a.pd.DestroyAH(ah)
	check(a.qp.PostSend(roce.SendWR{Opcode: roce.WRSend, Flags: roce.SendInline, Inline: []byte("to whom it may concern"),
		AH: ah, RemoteQPN: b.qp.QPN(), RemoteQKey: qkey}))

	wc := b.completion()
	fmt.Printf("%s; from queue pair of a: %v\n", b.memory[roce.GRHSize:wc.ByteLen], wc.SrcQP == a.qp.QPN())
	back, err := roce.AHAttrFromWC(&wc, b.memory)
	check(err)
	fmt.Println("from a's address:", back.DGID == a.qp.Endpoint().GID)
	// Output:
	// to whom it may concern; from queue pair of a: true
	// from a's address: true
}

// Two programs that are to be connected tell each other their Endpoint, as text, by any means: here
// by a connection of package net. (Package rdmacm does it by address and port.)
func ExampleParseEndpoint() {
	a, b := newNode("pipe:text", roce.QPInitAttr{}), newNode("pipe:text", roce.QPInitAttr{})
	defer a.close()
	defer b.close()
	meet := func(n *node, conn net.Conn) error {
		go fmt.Fprintln(conn, n.qp.Endpoint())
		var line string
		if _, err := fmt.Fscanln(conn, &line); err != nil {
			return err
		}
		peer, err := roce.ParseEndpoint(line)
		if err != nil {
			return err
		}
		return n.qp.Connect(context.Background(), peer, nil)
	}
	here, there := net.Pipe()
	done := make(chan error)
	go func() { done <- meet(b, there) }()
	check(meet(a, here))
	check(<-done)
	fmt.Println(a.qp.State(), b.qp.State())
	// Output: RTS RTS
}

// A bad day, made on purpose: the second queue pair cannot be had, and the third READ is refused.
func ExampleConfig_faults() {
	dev, err := roce.Open("pipe:faults", &roce.Config{Faults: "CreateQP:2:ENOMEM, wr.RDMA_READ:3:REM_ACCESS_ERR"})
	check(err)
	defer dev.Close()
	pd, err := dev.AllocPD()
	check(err)
	defer pd.Close()
	cq, err := dev.CreateCQ(roce.CQInitAttr{CQE: 16})
	check(err)
	defer cq.Close()
	qp, err := pd.CreateQP(roce.QPInitAttr{SendCQ: cq})
	check(err)
	defer qp.Close()
	_, err = pd.CreateQP(roce.QPInitAttr{SendCQ: cq})
	fmt.Println(errors.Is(err, roce.ErrLimit))
	// Output: true
}
