//go:build js && wasm

package main

// Filter expressions in a page that is one file: its packets, as it has them, are decoded once
// more.

import (
	"encoding/hex"
	"encoding/json"

	"github.com/goroce/goroce/trace"
	"github.com/goroce/goroce/trace/filter"
)

// filtered is a packet of the page.
type filtered struct {
	N         int             `json:"n"`
	Part      int             `json:"part"`
	Sent      int64           `json:"sent"` // since the capture's first packet
	Link      trace.LinkType  `json:"link"`
	Direction trace.Direction `json:"direction"`
	Name      string          `json:"interface"`
	Comment   string          `json:"comment"`
	ICRC      trace.Verdict   `json:"icrc"`
	Whole     int             `json:"whole"`
	Bytes     string          `json:"bytes"` // hexadecimal, the first ones
	Tail      string          `json:"tail"`  // the last ones
}

// left is what a filter leaves.
type left struct {
	Places []int  `json:"places"`
	Error  string `json:"error,omitempty"`
}

// choose holds packets against an expression.
func choose(expression, packets string, kept *[]filtered) *left {
	f, err := filter.Parse(expression)
	if err == nil && packets != "" {
		*kept = nil
		err = json.Unmarshal([]byte(packets), kept)
	}
	if err != nil {
		return &left{Error: err.Error()}
	}
	f.Match(&trace.Packet{}) // times are since the capture's beginning
	x := &left{Places: []int{}}
	for i := range *kept {
		if f.Match((*kept)[i].packet()) {
			x.Places = append(x.Places, i)
		}
	}
	return x
}

// packet decodes a packet. What the page has left out of its middle is zeros here.
func (x *filtered) packet() *trace.Packet {
	head, _ := hex.DecodeString(x.Bytes)
	tail, _ := hex.DecodeString(x.Tail)
	data := make([]byte, max(x.Whole, len(head)))
	copy(data, head)
	copy(data[len(data)-min(len(tail), len(data)):], tail)
	p := &trace.Packet{Part: x.Part, Record: trace.Record{Number: x.N, Time: x.Sent, Link: x.Link, Length: len(data),
		Data: data, Name: x.Name, Comment: x.Comment, Direction: x.Direction}}
	p.Decode()
	p.ICRC = x.ICRC
	return p
}
