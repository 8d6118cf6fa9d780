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
	{"speed-up", "how many times faster, all in all", speedUp},
	{"gbit", "MiB/s to Gbit/s and back", gbit},
	{"window", "throughput of a window", window},
	{"in-flight", "the window that a path needs", inFlight},
	{"cpu", "processor time of a million operations", cpu},
}

const page = 4096

func pages(d *dice) Question {
	first, n := d.from(0, page-1), d.from(1, 1<<20)
	addr := d.from(16, 1<<16)*page + first
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
	n, p := int64(1)<<d.from(21, 36), of[int64](d, page, 64<<10, 2<<20)
	entries := n / p
	return Question{
		Text: fmt.Sprintf("A NIC has an entry of 8 bytes for each page of a region. How many bytes of table does a "+
			"region of %s need, in pages of %s?", size(n), size(p)),
		Given: map[string]float64{"bytes": float64(n), "page": float64(p)}, Answer: float64(8 * entries), Unit: "bytes",
		Within: exact, Why: fmt.Sprintf("%s / %s = %d pages, times 8 bytes: %s.",
			size(n), size(p), entries, size(8*entries))}
}

func largest(d *dice) Question {
	t, p := int64(1)<<d.from(16, 26), of[int64](d, page, 2<<20)
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

func queues(d *dice) Question {
	sq, rq, cq := d.from(10, 2000), d.from(10, 2000), d.from(10, 4000)
	const sqe, rqe, cqe = 64, 16, 64
	sum := powerOfTwo(sq)*sqe + powerOfTwo(rq)*rqe + powerOfTwo(cq)*cqe
	return Question{
		Text: fmt.Sprintf("A NIC rounds the lengths of queues up to powers of two. A send queue of %d requests of 64 "+
			"bytes, a receive queue of %d of 16 bytes, a completion queue of %d of 64 bytes: "+
			"how many bytes are these together?", sq, rq, cq),
		Given: map[string]float64{"sq": float64(sq), "rq": float64(rq), "cq": float64(cq)}, Answer: float64(sum),
		Unit: "bytes", Within: exact, Why: fmt.Sprintf("SQ: %d * 64 = %d. RQ: %d * 16 = %d. CQ: %d * 64 = %d. "+
			"Together %d. A thousand such connections need %d MiB; the caches of NICs have a few.",
			powerOfTwo(sq), powerOfTwo(sq)*sqe, powerOfTwo(rq), powerOfTwo(rq)*rqe, powerOfTwo(cq), powerOfTwo(cq)*cqe,
			sum, sum*1000>>20)}
}

// field is a field of a work request that the quiz asks for.
type field struct {
	name string
	of   func(w wanted) int
	why  func(w wanted) string
}

// wanted is a transfer in words: a message of n bytes from a place of one buffer to a place of
// another.
type wanted struct{ local, from, remote, to, n int }

var fields = []field{
	{"sg_list[0].addr", func(w wanted) int { return w.local + w.from },
		func(w wanted) string {
			return fmt.Sprintf("The buffer begins at 0x%x, and 0x%x more is where the message begins.", w.local, w.from)
		}},
	{"sg_list[0].length", func(w wanted) int { return w.n }, func(w wanted) string {
		return "The length is that of the message, not of the region."
	}},
	{"wr.rdma.remote_addr", func(w wanted) int { return w.remote + w.to },
		func(w wanted) string {
			return fmt.Sprintf("It is an address in the peer's memory, 0x%x + 0x%x, not an offset (but of a region "+
				"that is ZERO_BASED).", w.remote, w.to)
		}},
	{"opcode (the number)", func(w wanted) int { return 0 }, func(w wanted) string {
		return "IBV_WR_RDMA_WRITE is 0, IBV_WR_RDMA_WRITE_WITH_IMM 1, IBV_WR_SEND 2, IBV_WR_SEND_WITH_IMM 3, " +
			"IBV_WR_RDMA_READ 4."
	}},
	{"num_sge", func(w wanted) int { return 1 }, func(w wanted) string {
		return "All bytes lie together here, so one element names them."
	}},
	{"send_flags, for a completion", func(w wanted) int { return 2 }, func(w wanted) string {
		return "IBV_SEND_SIGNALED is 1 << 1; IBV_SEND_FENCE is 1, SOLICITED 4, INLINE 8. Without it, and without " +
			"sq_sig_all, no completion comes."
	}},
}

func sendWR(d *dice) Question {
	w := wanted{
		local:  d.from(1, 1<<16) * page,
		from:   d.from(0, 255) * 16,
		remote: d.from(1, 1<<16) * page,
		to:     d.from(0, 255) * 8,
		n:      d.from(1, page),
	}
	i := d.IntN(len(fields))
	f := fields[i]
	return Question{
		Text: fmt.Sprintf("An RDMA WRITE of %d bytes, from offset 0x%x of your buffer at 0x%x, to offset 0x%x of the "+
			"peer's region at 0x%x. Of the ibv_send_wr: what is %s?",
			w.n, w.from, w.local, w.to, w.remote, f.name),
		Given: map[string]float64{
			"local":  float64(w.local),
			"from":   float64(w.from),
			"remote": float64(w.remote),
			"to":     float64(w.to),
			"bytes":  float64(w.n),
			"field":  float64(i),
		},
		Answer: float64(f.of(w)), Within: exact, Why: fmt.Sprintf("%s. The answer is %d, 0x%x.",
			trimPoint(f.why(w)), f.of(w), f.of(w))}
}

func trimPoint(s string) string { return s[:len(s)-1] }
