package link

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFramesPassWhole(t *testing.T) {
	a, b := net.Pipe()
	left, right := NewConn(a), NewConn(b)
	sent := []Frame{{0, Hello, []byte("{}")}, {7, Stdin, bytes.Repeat([]byte("x"), MaxData)}, {7, StdinEnd, []byte{}}}
	go func() {
		for _, f := range sent {
			left.Send(f.ID, f.Kind, f.Data)
		}
		left.SendCredit(9, 1234)
		a.Close()
	}()
	for _, want := range sent {
		got, err := right.Recv()
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	f, err := right.Recv()
	require.NoError(t, err)
	require.Equal(t, 1234, CreditOf(f))
	_, err = right.Recv()
	require.ErrorIs(t, err, io.EOF)
}

func TestSenselessLengthIsRefused(t *testing.T) {
	var stream bytes.Buffer
	stream.Write(binary.BigEndian.AppendUint32(nil, 1<<31))
	stream.Write(make([]byte, 5))
	_, err := NewConn(&stream).Recv()
	require.ErrorContains(t, err, "2147483648 bytes")
	require.Zero(t, CreditOf(Frame{Kind: Credit, Data: []byte{1}}))
}

func TestWindow(t *testing.T) {
	w := NewWindow(10)
	require.True(t, w.Take(10))
	got := make(chan bool)
	go func() { got <- w.Take(5) }()
	w.Give(4)
	select {
	case <-got:
		t.Fatal("4 bytes were free, 5 were taken")
	default:
	}
	w.Give(1)
	require.True(t, <-got)
	go func() { got <- w.Take(1) }()
	w.Close()
	require.False(t, <-got)
}

func TestQueueKeepsOrderAndEndsEmpty(t *testing.T) {
	q := NewQueue()
	go func() {
		for i := range uint32(100) {
			q.Push(Frame{ID: i})
		}
		q.Close()
	}()
	for i := range uint32(100) {
		f, ok := q.Pop()
		require.True(t, ok)
		require.Equal(t, i, f.ID)
	}
	_, ok := q.Pop()
	require.False(t, ok)
}
