package quiz

// The kinds of questions, and those about memory and queues.

import (
	"fmt"
	"math/bits"
)

// Kinds are all kinds in the order in which to learn them.
var Kinds = []Kind{
	{"pages", "pages of a region", pages},
	{"table", "translation-table bytes of a region", table},
	{"largest", "the largest region for a translation table", largest},
	{"cached", "what part of the registered memory a NIC's cache knows", cached},
	{"queues", "bytes of SQ, RQ and CQ", queues},
	{"send-wr", "the fields of an ibv_send_wr", sendWR},
	{"packets", "packets of a message", packets},
	{"headers", "what headers leave of the line rate", headers},
	{"latency", "the sum of a way", latency},
	{"ways", "a round trip by sockets against one by RDMA", ways},
	{"speed-up", "how many times faster, all in all", speedUp},
	{"gbit", "MiB/s to Gbit/s and back", gbit},
	{"window", "throughput of a window", window},
	{"in-flight", "the window that a path needs", inFlight},
	{"cpu", "processor time of a million operations", cpu},
}

const page = 4096

func pages(d *dice) Question {
	first, n := d.from(0, page-1), d.from(1, 1<<20)
	return pagesOf(int64(d.from(16, 1<<16)*page+first), n)
}

func pagesOf(addr int64, n int) Question {
	first := int(addr % page)
	count := (first + n + page - 1) / page
	return Question{
		Text: fmt.Sprintf("A region begins at address 0x%x and has %d bytes. How many pages of 4 KiB does "+
			"its driver pin?", addr, n),
		Given: map[string]float64{"addr": float64(addr), "bytes": float64(n)}, Answer: float64(count), Unit: "pages",
		Within: exact, Why: fmt.Sprintf("It begins %d bytes into its first page (0x%x mod 4096), and so its end is "+
			"%d bytes behind the start of that page. %d / 4096, rounded up, is %d. "+
			"Whole pages are pinned, although the key is good for the %d bytes only.", first, addr, first+n,
			first+n, count, n)}
}

func table(d *dice) Question {
	return tableOf(int64(1)<<d.from(21, 36), of[int64](d, page, 64<<10, 2<<20))
}

func tableOf(n, p int64) Question {
	entries := n / p
	return Question{
		Text: fmt.Sprintf("A NIC has an entry of 8 bytes for each page of a region. How many bytes of table does a "+
			"region of %s need, in pages of %s?", size(n), size(p)),
		Given: map[string]float64{"bytes": float64(n), "page": float64(p)}, Answer: float64(8 * entries), Unit: "bytes",
		Within: exact, Why: fmt.Sprintf("%s / %s = %d pages, times 8 bytes: %s.",
			size(n), size(p), entries, size(8*entries))}
}

func largest(d *dice) Question {
	return largestOf(int64(1)<<d.from(16, 26), of[int64](d, page, 2<<20))
}

func largestOf(t, p int64) Question {
	n := t / 8 * p
	return Question{
		Text: fmt.Sprintf("A NIC has %s of translation table, 8 bytes for each page. How many bytes of memory can "+
			"be registered in pages of %s, all regions together?", size(t), size(p)),
		Given: map[string]float64{"table": float64(t), "page": float64(p)}, Answer: float64(n), Unit: "bytes",
		Within: exact, Why: fmt.Sprintf("%s / 8 = %d entries, each for %s: %s. Huge pages are 512 times as many "+
			"bytes an entry.", size(t), t/8, size(p), size(n))}
}

func cached(d *dice) Question {
	n, c := int64(1)<<d.from(30, 38), int64(1)<<d.from(17, 22)
	entries, known := n/page, c/8
	share := 100 * min(float64(known)/float64(entries), 1)
	return Question{
		Text: fmt.Sprintf("%s are registered in pages of 4 KiB. The NIC's cache holds %s of entries of 8 bytes. "+
			"Accesses go to all pages alike: how many percent find their entry in the cache?",
			size(n), size(c)),
		Given: map[string]float64{"bytes": float64(n), "cache": float64(c)}, Answer: share, Unit: "%", Within: near,
		Why: fmt.Sprintf("%s / 4 KiB = %d entries are needed (%s), %d are in the cache: %s %%. Each other access "+
			"first asks main memory, across PCI Express, for the entry.",
			size(n), entries, size(8*entries), known, Number(share))}
}

// powerOfTwo rounds up.
func powerOfTwo(n int) int { return 1 << bits.Len(uint(n-1)) }

// rings are the lengths of the queues of a queue pair and the bytes of an entry of each.
type rings struct {
	sq, rq, cq    int
	sqe, rqe, cqe int
	rounded       bool // the lengths are rounded up to powers of two
}

// sizes are the bytes of each queue.
func (r rings) sizes() (sq, rq, cq int) {
	if r.rounded {
		r.sq, r.rq, r.cq = powerOfTwo(r.sq), powerOfTwo(r.rq), powerOfTwo(r.cq)
	}
	return r.sq * r.sqe, r.rq * r.rqe, r.cq * r.cqe
}

// queues asks for a NIC's queues, whose lengths are rounded, or for those of exercise sheets.
func queues(d *dice) Question {
	r := rings{d.from(10, 2000), d.from(10, 2000), d.from(10, 4000), 64, 16, 64, true}
	if d.IntN(2) == 0 {
		r.rqe, r.cqe, r.rounded = 64, 32, false
	}
	return queuesOf(r)
}

func queuesOf(r rings) Question {
	sq, rq, cq := r.sizes()
	sum, how, round := sq+rq+cq, "Take the lengths of queues as they are asked for.", 0.0
	if r.rounded {
		how, round = "A NIC rounds the lengths of queues up to powers of two.", 1
	}
	return Question{
		Text: fmt.Sprintf("%s A send queue of %d requests of %d bytes, a receive queue of %d of %d bytes, a "+
			"completion queue of %d of %d bytes: how many bytes are these together?",
			how, r.sq, r.sqe, r.rq, r.rqe, r.cq, r.cqe),
		Given: map[string]float64{"sq": float64(r.sq), "rq": float64(r.rq), "cq": float64(r.cq), "sqe": float64(r.sqe),
			"rqe": float64(r.rqe), "cqe": float64(r.cqe), "rounded": round}, Answer: float64(sum),
		Unit: "bytes", Within: exact, Why: fmt.Sprintf("SQ: %d * %d = %d. RQ: %d * %d = %d. CQ: %d * %d = %d. "+
			"Together %d. A thousand such connections need %d MiB; the caches of NICs have a few.",
			sq/r.sqe, r.sqe, sq, rq/r.rqe, r.rqe, rq, cq/r.cqe, r.cqe, cq, sum, sum*1000>>20)}
}

// field is a field of a work request that the quiz asks for.
type field struct {
	name string
	of   func(w wanted) int64
	why  func(w wanted) string
}

// wanted is a transfer in words: a message of n bytes from a place of one buffer to a place of
// another, each with the key that opens it here.
type wanted struct{ local, from, remote, to, n, lkey, rkey int64 }

var fields = []field{
	{"sg_list[0].addr", func(w wanted) int64 { return w.local + w.from },
		func(w wanted) string {
			return fmt.Sprintf("The buffer begins at 0x%x, and 0x%x more is where the message begins.", w.local, w.from)
		}},
	{"sg_list[0].length", func(w wanted) int64 { return w.n }, func(w wanted) string {
		return "The length is that of the message, not of the region."
	}},
	{"sg_list[0].lkey", func(w wanted) int64 { return w.lkey }, func(w wanted) string {
		return "The own device opens the own buffer by the lkey of the own region."
	}},
	{"wr.rdma.rkey", func(w wanted) int64 { return w.rkey }, func(w wanted) string {
		return "The peer's device opens the peer's region by its rkey, which the peer has told. The own region " +
			"has an " +
			"rkey as well, which is for others."
	}},
	{"wr.rdma.remote_addr", func(w wanted) int64 { return w.remote + w.to },
		func(w wanted) string {
			return fmt.Sprintf("It is an address in the peer's memory, 0x%x + 0x%x, not an offset (but of a region "+
				"that is ZERO_BASED).", w.remote, w.to)
		}},
	{"opcode (the number)", func(w wanted) int64 { return 0 }, func(w wanted) string {
		return "IBV_WR_RDMA_WRITE is 0, IBV_WR_RDMA_WRITE_WITH_IMM 1, IBV_WR_SEND 2, IBV_WR_SEND_WITH_IMM 3, " +
			"IBV_WR_RDMA_READ 4."
	}},
	{"num_sge", func(w wanted) int64 { return 1 }, func(w wanted) string {
		return "All bytes lie together here, so one element names them."
	}},
	{"send_flags, for a completion", func(w wanted) int64 { return 2 }, func(w wanted) string {
		return "IBV_SEND_SIGNALED is 1 << 1; IBV_SEND_FENCE is 1, SOLICITED 4, INLINE 8. Without it, and without " +
			"sq_sig_all, no completion comes."
	}},
}

func sendWR(d *dice) Question {
	from := func(least, most int) int64 { return int64(d.from(least, most)) }
	w := wanted{
		local:  from(1, 1<<16) * page,
		from:   from(0, 255) * 16,
		remote: from(1, 1<<16) * page,
		to:     from(0, 255) * 8,
		n:      from(1, page),
		lkey:   from(1<<12, 1<<16-1),
		rkey:   from(1<<16, 1<<20-1),
	}
	return fieldOf(w, d.IntN(len(fields)))
}

func fieldOf(w wanted, i int) Question {
	f := fields[i]
	return Question{
		Text: fmt.Sprintf("An RDMA WRITE of %d bytes, from offset 0x%x of your buffer at 0x%x (lkey 0x%x), to offset "+
			"0x%x of the peer's region at 0x%x (rkey 0x%x). Of the ibv_send_wr: what is %s?",
			w.n, w.from, w.local, w.lkey, w.to, w.remote, w.rkey, f.name),
		Given: map[string]float64{
			"local":  float64(w.local),
			"from":   float64(w.from),
			"remote": float64(w.remote),
			"to":     float64(w.to),
			"bytes":  float64(w.n),
			"lkey":   float64(w.lkey),
			"rkey":   float64(w.rkey),
			"field":  float64(i),
		},
		Answer: float64(f.of(w)), Within: exact, Why: fmt.Sprintf("%s. The answer is %d, 0x%x.",
			trimPoint(f.why(w)), f.of(w), f.of(w))}
}

func trimPoint(s string) string { return s[:len(s)-1] }
