package qp

// qpnTable finds queue pairs by number. It uses open addressing with linear probing, because the
// numbers are random (predictable ones invite spoofing) and a lookup happens for every packet. It
// is at most half full. Deletion moves the rest of the run back.
type qpnTable struct {
	cells []*QP
	n     int
}

// goldenRatio is the prime next to 2^32 divided by the golden ratio.
const goldenRatio = 0x9e3779b1

func (t *qpnTable) slot(qpn uint32) int {
	// Fibonacci hashing spreads numbers whose low bits are the same.
	return int((qpn*goldenRatio)>>8) & (len(t.cells) - 1)
}

func (t *qpnTable) find(qpn uint32) *QP {
	if t.n == 0 {
		return nil
	}
	for i := t.slot(qpn); ; i = (i + 1) & (len(t.cells) - 1) {
		q := t.cells[i]
		if q == nil || q.qpn == qpn {
			return q
		}
	}
}

func (t *qpnTable) insert(q *QP) {
	if 2*(t.n+1) > len(t.cells) {
		old := t.cells
		t.cells = make([]*QP, max(16, 2*len(old)))
		for _, o := range old {
			if o != nil {
				t.place(o)
			}
		}
	}
	t.place(q)
	t.n++
}

func (t *qpnTable) place(q *QP) {
	i := t.slot(q.qpn)
	for t.cells[i] != nil {
		i = (i + 1) & (len(t.cells) - 1)
	}
	t.cells[i] = q
}

func (t *qpnTable) remove(qpn uint32) {
	mask := len(t.cells) - 1
	i := t.slot(qpn)
	for t.cells[i].qpn != qpn {
		i = (i + 1) & mask
	}
	t.cells[i] = nil
	t.n--
	for j := (i + 1) & mask; t.cells[j] != nil; j = (j + 1) & mask {
		q := t.cells[j]
		t.cells[j] = nil
		t.place(q)
	}
}

// each calls f for every queue pair; f must not insert or remove.
func (t *qpnTable) each(f func(*QP)) {
	for _, q := range t.cells {
		if q != nil {
			f(q)
		}
	}
}
