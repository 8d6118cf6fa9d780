package trace

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/qp"
	"github.com/goroce/goroce/qp/qptest"
	"github.com/goroce/goroce/roce"
	"github.com/goroce/goroce/roce/rdmacm"
	"github.com/goroce/goroce/wire"
)

// vectors returns the Ethernet frames of testdata/, by name.
func vectors(t testing.TB) (names []string, frames [][]byte) {
	t.Helper()
	var icrc struct {
		Vectors []struct {
			Name  string
			Frame string `json:"frame_hex"`
		}
	}
	var cm struct {
		Messages []struct {
			Msg   string
			Frame string `json:"frame_hex"`
		}
	}
	readJSON(t, "icrc_vectors.json", &icrc)
	readJSON(t, "cm_vectors.json", &cm)
	add := func(name, text string) {
		b, err := hex.DecodeString(text)
		require.NoError(t, err)
		names, frames = append(names, name), append(frames, b)
	}
	for _, v := range icrc.Vectors {
		add(v.Name, v.Frame)
	}
	for _, m := range cm.Messages {
		add("cm "+m.Msg, m.Frame)
	}
	require.GreaterOrEqual(t, len(names), 17)
	return names, frames
}

func readJSON(t testing.TB, name string, into any) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("../testdata", name))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(b, into))
}

// capture writes records as pcapng.
func capture(t testing.TB, recs ...Record) []byte {
	t.Helper()
	var out bytes.Buffer
	w := NewWriter(&out)
	for i := range recs {
		require.NoError(t, w.Write(&recs[i]))
	}
	require.NoError(t, w.Flush())
	return out.Bytes()
}

// vectorCapture is all of testdata/ as one capture.
func vectorCapture(t testing.TB) []byte {
	_, frames := vectors(t)
	var recs []Record
	for i, f := range frames {
		recs = append(recs, Record{Time: int64(i) * 1000, Link: LinkEthernet, Data: f})
	}
	return capture(t, recs...)
}

// world is a capture of a simulated world.
func world(t testing.TB, seed uint64) []byte {
	t.Helper()
	var c qptest.Capture
	require.NoError(t, qptest.NewPlan(seed).Play(&c, nil, nil))
	return c.Bytes()
}

// all calls f with every packet of a capture.
func all(t testing.TB, file []byte, f func(p *Packet)) {
	t.Helper()
	src, err := NewSource(bytes.NewReader(file))
	require.NoError(t, err)
	for {
		p, err := src.Next()
		if err == io.EOF {
			return
		}
		require.NoError(t, err)
		f(p)
	}
}

func TestVectorsDecode(t *testing.T) {
	names, _ := vectors(t)
	i := 0
	all(t, vectorCapture(t), func(p *Packet) {
		require.Equal(t, RoCEv2, p.Kind, names[i])
		require.Equal(t, ICRCRight, p.ICRC, names[i])
		require.Empty(t, p.Problem)
		i++
	})
	require.Equal(t, len(names), i)
}

// TestRows walks every row of every table: in the order of bits, inside the header, no two of them
// about the same bits; headers of the transport have the size that package wire gives them.
func TestRows(t *testing.T) {
	sizes := map[string]int{"Ethernet": 14, "VLAN": 4, "SLL": 16, "SLL2": 20, "ERF": 16, "LRH": 8, "GRH": 40, "IPv4": 20, "IPv6": 40,
		"UDP": 8, "BTH": 12, "MAD": 24}
	for h := wire.Header(0); h < wire.NumHeaders; h++ {
		sizes[h.String()] = h.Size()
	}
	require.Len(t, rows, len(sizes))
	for name, table := range rows {
		end := 0
		for _, r := range table {
			require.GreaterOrEqual(t, r.bit, end, "%s %s", name, r.name)
			end = r.bit + r.bits
			require.LessOrEqual(t, end, 8*sizes[name], "%s %s", name, r.name)
			if r.bits > 64 {
				require.Contains(t, []style{address, octets}, r.style, "%s %s", name, r.name)
			}
			if r.means != nil {
				for v := range uint64(300) {
					r.means(&Packet{}, v)
				}
			}
		}
	}
}

// TestFieldsCoverEverything: fields lie in the order of bytes, and a packet that is right has no
// byte without one, reserved ones aside.
func TestFieldsCoverEverything(t *testing.T) {
	check := func(p *Packet) {
		end := 0
		p.EachField(func(f Field) {
			require.False(t, f.Missing)
			if !strings.HasPrefix(f.Layer, "CM ") { // whose tables go by meaning
				require.GreaterOrEqual(t, f.Bit, end, "%s %s", f.Layer, f.Name)
				require.LessOrEqual(t, f.Bit-end, 26, "before %s %s", f.Layer, f.Name)
			}
			end = f.Bit + f.Bits
		})
		require.Equal(t, 8*len(p.Data), end)
	}
	all(t, vectorCapture(t), check)
	all(t, world(t, 3), check)
}

// wrap is an Ethernet frame's IP packet behind another header.
type wrap struct {
	name string
	link LinkType
	data []byte
}

// wrapped puts the IP packet of an Ethernet frame behind the header of each link type.
func wrapped(t testing.TB, ether []byte) []wrap {
	ip := ether[14:]
	with := func(header string, packet []byte) []byte {
		b, err := hex.DecodeString(strings.ReplaceAll(header, " ", ""))
		require.NoError(t, err)
		return append(b, packet...)
	}
	size := func(n int) string { return fmt.Sprintf("%04x", n) }
	const addresses = "020000000002 020000000001 "
	return []wrap{
		{"Ethernet", LinkEthernet, ether},
		{"raw", LinkRaw, ip},
		{"raw, BSD", linkRawBSD, ip},
		{"IPv4", LinkIPv4, ip},
		{"null", LinkNull, with("02000000", ip)},
		{"one tag", LinkEthernet, with(addresses+"8100 6064 0800", ip)},
		{"two tags", LinkEthernet, with(addresses+"88a8 0001 8100 0002 0800", ip)},
		{"cooked", LinkCooked, with("0000 0001 0006 0200000000010000 0800", ip)},
		{"cooked 2", LinkCooked2, with("0800 0000 00000003 0001 00 06 0200000000010000", ip)},
		{"ERF Ethernet", LinkERF, with("0000000000000000 02 00 "+size(18+len(ether))+" 0000 "+size(len(ether))+" 0000", ether)},
		{"ERF with an extension", LinkERF, with("0000000000000000 82 00 "+size(26+len(ether))+" 0000 "+size(len(ether))+
			" 0300000000000000 0000", ether)},
	}
}

// TestLinks finds the packet behind each of them.
func TestLinks(t *testing.T) {
	_, frames := vectors(t)
	for _, c := range wrapped(t, frames[0]) {
		all(t, capture(t, Record{Link: c.link, Data: c.data}), func(p *Packet) {
			require.Equal(t, RoCEv2, p.Kind, "%s: %s", c.name, p.Why)
			require.Equal(t, ICRCRight, p.ICRC, c.name)
		})
	}
}

// TestCut: what the capture has left out can still be read, and the ICRC is not.
func TestCut(t *testing.T) {
	_, frames := vectors(t)
	for n := 14 + wire.Head4Len + int(wire.RCWriteOnlyImm.Info().HdrLen); n < len(frames[1]); n++ {
		all(t, capture(t, Record{Link: LinkEthernet, Data: frames[1][:n], Length: len(frames[1])}), func(p *Packet) {
			require.True(t, p.Parsed, p.Problem)
			require.Equal(t, len(frames[1])-n, p.Cut)
			require.Equal(t, ICRCUnchecked, p.ICRC)
			require.Len(t, p.Wire.Payload, 8)
			require.Contains(t, string(p.AppendFields(nil)), "(not captured)")
		})
	}
}

// TestHeadersCut: what is left of a packet whose headers are cut off.
func TestHeadersCut(t *testing.T) {
	whole := runOf(t, 1, wire.RCWriteOnly, 64, 64, 1)
	for n, want := range map[int]string{
		wire.Head4Len:                   "0 bytes of the BTH's 12",
		wire.Head4Len + 11:              "11 bytes of the BTH's 12",
		wire.Head4Len + wire.BTHLen + 3: "15 bytes of 28 are there, of RC RDMA_WRITE_ONLY qp 0x000012 psn 0",
	} {
		all(t, capture(t, Record{Link: LinkRaw, Data: whole[:n], Length: len(whole)}), func(p *Packet) {
			require.False(t, p.Parsed)
			require.Equal(t, RoCEv2, p.Kind)
			require.Contains(t, p.Problem, want)
			require.Contains(t, string(p.AppendLine(nil)), "| CUT: ")
			require.NotContains(t, string(p.AppendLine(nil)), "BAD")
		})
	}
}

// TestRunCut: of a run that is cut the first packet can be read, as long as it was if that can be
// told, and that there were more is said.
func TestRunCut(t *testing.T) {
	for _, c := range []struct {
		op   wire.Opcode
		n    int
		want int // the first packet's payload; -1: that is not known
	}{
		{wire.RCWriteOnly, 64, 64}, {wire.RCWriteOnlyImm, 3, 3}, {wire.RCReadRequest, 0, 0}, {wire.RCAcknowledge, 0, 0},
		{wire.RCAtomicWrite, 8, 8},
		{wire.RCWriteMiddle, 256, -1}, {wire.RCWriteMiddle, 4096, -1}, {wire.RCSendOnly, 1000, -1},
	} {
		whole := runOf(t, 5, c.op, c.n, c.n, 1)
		all(t, capture(t, Record{Link: LinkRaw, Data: whole[:60], Length: len(whole)}), func(p *Packet) {
			require.True(t, p.Parsed, p.Problem)
			require.True(t, p.RunCut, c.op)
			require.Equal(t, ICRCUnchecked, p.ICRC)
			if c.want >= 0 {
				require.Len(t, p.Wire.Payload, c.want)
			}
			require.Contains(t, string(p.AppendLine(nil)), "the other packets of a run")
			require.NotContains(t, string(p.AppendLine(nil)), "BAD")
			require.Contains(t, string(p.AppendJSON(nil)), `"run_cut":true`)
		})
		whole = runOf(t, 1, c.op, c.n, c.n, 1)
		all(t, capture(t, Record{Link: LinkRaw, Data: whole[:min(60, len(whole)-1)], Length: len(whole)}), func(p *Packet) {
			require.False(t, p.RunCut, c.op)
		})
	}
}

// TestWriteAllocates: nothing for a packet.
func TestWriteAllocates(t *testing.T) {
	w := NewWriter(io.Discard)
	rec := Record{Link: LinkEthernet, Name: "eth0", Direction: DirSent, Data: make([]byte, 1501), Length: 1501}
	require.Zero(t, testing.AllocsPerRun(1000, func() { _ = w.Write(&rec) }))
}

// TestRun: a datagram of several packets, captured before the kernel has cut it. Where to cut it is
// found whatever the packets are, and however the kernel has numbered them.
func TestRun(t *testing.T) {
	for _, c := range []struct {
		op      wire.Opcode
		n, last int // bytes of payload
		step    uint16
	}{
		{wire.RCWriteOnly, 1024, 100, 1},
		{wire.RCWriteMiddle, 4096, 4096, 1},
		{wire.RCWriteMiddle, 256, 1, 1},
		{wire.RCWriteOnly, 64, 64, 1},
		{wire.RCSendOnly, 61, 61, 1},
		{wire.RCSendOnly, 3000, 2999, 1},
		{wire.RCSendLast, 700, 4, 1},
		{wire.RCReadRequest, 0, 0, 1},
		{wire.RCAcknowledge, 0, 0, 1},
		{wire.RCReadResponseLast, 8, 8, 0},
		{wire.RCWriteOnly, 64, 64, 0x1234},
		{wire.UDSendOnly, 30, 2, 1},
	} {
		t.Run(fmt.Sprintf("%v of %d bytes, by %d", c.op, c.n, c.step), func(t *testing.T) {
			whole := runOf(t, 5, c.op, c.n, c.last, c.step)
			n := 0
			all(t, capture(t, Record{Link: LinkRaw, Data: whole}, Record{Link: LinkRaw, Data: whole[:28+20]}), func(p *Packet) {
				if p.Number == 1 {
					require.Equal(t, n+1, p.Part)
					require.Equal(t, ICRCRight, p.ICRC)
					require.Equal(t, wire.PSN(n), p.Wire.BTH.PSN())
					n++
				}
			})
			require.Equal(t, 5, n)
		})
	}
}

// runOf is a datagram of packets with n bytes of payload, the last with another number of them; the
// kernel counts their IP headers up by step.
func runOf(t *testing.T, packets int, op wire.Opcode, n, last int, step uint16) (whole []byte) {
	path, err := wire.NewPath(gid(t, "10.0.0.1"), gid(t, "10.0.0.2"), 0xc123, 0, 64, 0)
	require.NoError(t, err)
	for i := range packets {
		if i == packets-1 {
			n = last
		}
		data := make([]byte, wire.Head4Len+wire.BodyLen(op, n))
		f := wire.Frame{Head: data[:wire.Head4Len], Body: data[wire.Head4Len:]}
		path.PutHead(f.Head, len(f.Body), uint16(i)*step)
		var p wire.Packet
		require.True(t, p.Lay(&f, op, n))
		p.BTH.Put(op, 0, uint8(wire.Pad(n)), wire.DefaultPKey, 0x12, wire.PSN(i))
		if h := p.RETH(); h != nil {
			h.Put(0x1000, 7, uint32(n))
		}
		copy(p.Payload, bytes.Repeat([]byte{0xff, 0}, n)) // of which some could be a BTH
		wire.Seal(&f)
		if i == 0 {
			whole = append(whole, f.Head...)
		}
		whole = append(whole, f.Body...)
	}
	h := (*wire.IPv4)(whole)
	h.SetTotalLength(uint16(len(whole)))
	h.UpdateChecksum()
	be.PutUint16(whole[24:], uint16(len(whole)-20))
	return whole
}

func gid(t testing.TB, s string) wire.GID {
	g, err := wire.ParseGID(s)
	require.NoError(t, err)
	return g
}

// TestStatusTables: whatever can be said by number is known, by its number and by the name that
// programs print.
func TestStatusTables(t *testing.T) {
	known := func(what, name string) {
		t.Helper()
		text, ok := ExplainStatus(what)
		require.True(t, ok, what)
		require.Contains(t, strings.ToLower(text), strings.ToLower(name), what)
	}
	statuses := 0
	for i := range 256 {
		s := qp.WCStatus(i)
		known(fmt.Sprintf("syndrome 0x%02x", i), "syndrome")
		if strings.Contains(s.String(), "WCStatus(") {
			continue
		}
		statuses++
		known(strconv.Itoa(i), "completion status")
		known(s.String(), fmt.Sprintf("completion status %d", i))
	}
	require.GreaterOrEqual(t, statuses, 14)
	for _, c := range []struct {
		word string
		name func(i int) string
		n    int // how many numbers are looked at
		want int // how many of them are assigned
	}{
		{"event", func(i int) string { return roce.EventType(i).String() }, 64, 0},
		{"cm", func(i int) string { return rdmacm.EventType(i).String() }, 64, 16},
		{"rej", func(i int) string { return wire.CMRejReason(i).String() }, 100, 34},
		{"sidr", func(i int) string { return wire.CMSidrStatus(i).String() }, 100, 6},
	} {
		found := 0
		for i := range c.n {
			if name := c.name(i); name != strconv.Itoa(i) && !strings.Contains(name, "EventType(") {
				found++
				known(fmt.Sprintf("%s %d", c.word, i), "")
				if c.word != "event" { // whose words are longer than the names
					known(name, fmt.Sprintf(" %d)", i))
				}
			}
		}
		require.GreaterOrEqual(t, found, c.want, c.word)
	}
}

// othersCounters are the names that Linux has in its drivers for hw_counters of rxe and mlx5.
var othersCounters = map[string]string{
	"rxe": `sent_pkts rcvd_pkts duplicate_request out_of_seq_request rcvd_rnr_err send_rnr_err rcvd_seq_err ack_deferred
		retry_exceeded_err retry_rnr_exceeded_err completer_retry_err send_err link_downed rdma_sends rdma_recvs`,
	"mlx5": `rx_write_requests rx_read_requests rx_atomic_requests rx_dct_connect out_of_buffer out_of_sequence duplicate_request
		rnr_nak_retry_err packet_seq_err implied_nak_seq_err local_ack_timeout_err rp_cnp_ignored rp_cnp_handled
		np_ecn_marked_roce_packets np_cnp_sent resp_local_length_error resp_cqe_error req_cqe_error req_remote_invalid_request
		req_remote_access_errors resp_remote_access_errors resp_cqe_flush_error req_cqe_flush_error req_transport_retries_exceeded
		req_rnr_retries_exceeded roce_adp_retrans roce_adp_retrans_to roce_slow_restart roce_slow_restart_cnps
		roce_slow_restart_trans rx_icrc_encapsulated cc_rx_ce_pkts cc_rx_cnp_pkts cc_tx_cnp_pkts rdma_tx_packets rdma_tx_bytes
		rdma_rx_packets rdma_rx_bytes vport_out_of_buffer vport_packet_seq_err`,
	"ethtool": `rx_prio0_pause tx_prio7_pause rx_prio3_pause_duration rx_prio3_discards rx_discards_phy rx_crc_errors_phy
		rx_global_pause tx_pause_storm_error_events outbound_pci_stalled_wr link_down_events_phy`,
}

// TestEveryCounter of a device, of rxe and of mlx5 is explained, by the name that it has there.
func TestEveryCounter(t *testing.T) {
	var s qp.Stats
	for r := range s.Drops {
		s.Drops[r] = 1
	}
	s.Each(func(name string, _ uint64) {
		_, ok := ExplainStatus(name)
		require.True(t, ok, name)
	})
	for _, names := range othersCounters {
		for _, name := range strings.Fields(names) {
			text, ok := ExplainStatus(name)
			require.True(t, ok, name)
			require.Contains(t, text, "Counted at ", name)
		}
	}
	for name, want := range map[string]string{
		"rx_prio3_pause":       "priority 3",
		"rx_icrc_encapsulated": "wrong ICRC",
		"np_cnp_sent":          "notifications",
	} {
		text, _ := ExplainStatus(name)
		require.Contains(t, text, want)
	}
}

// TestStatus: everything that is listed is explained by its name and by its number.
func TestStatus(t *testing.T) {
	for _, topic := range Topics() {
		names := []string{topic.Name, strings.ToLower(topic.Name)}
		for word, kind := range topicWords {
			if kind == topic.Kind && topic.Number >= 0 {
				names = append(names, fmt.Sprintf("%s %d", word, topic.Number))
			}
		}
		for _, name := range names {
			text, ok := ExplainStatus(name)
			require.True(t, ok, name)
			require.Contains(t, text, topic.Means, name)
		}
	}
	for what, want := range map[string]string{"9": "IBV_WC_REM_INV_REQ_ERR (completion status 9)", "0x62": "REMOTE_ACCESS",
		"0x2e": "1.28 ms", "0x1f": "nothing said", "cm 8": "RDMA_CM_EVENT_REJECTED (rdma_cm event 8)", "rej 13": "invalid LID",
		"sidr 1": "unsupported service ID", "consumer defined": "rejection 28", "remote access error": "(completion status 10)",
		"REM_OP_ERR": "status 11", "event 3": "IBV_EVENT_QP_ACCESS_ERR", "0xff": "eserved", "Work Request Flushed Error": "status 5"} {
		text, ok := ExplainStatus(what)
		require.True(t, ok, what)
		require.Contains(t, text, want)
	}
	for _, what := range []string{"", "99", "what", "event", "event x", "foo 9", "0a40ffff", "1 2 3"} {
		_, ok := ExplainStatus(what)
		require.False(t, ok, what)
	}
}
