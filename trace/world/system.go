package world

// What lies around a program and its device: memory that no key opens, and what the operating
// system or the hardware does to memory.

// Show shows bytes that no key opens, such as a page of another program, or a queue.
func (h *Host) Show(name string, bytes []byte) *Region {
	r := &Region{Host: h, Name: name, Bytes: bytes, index: len(h.regions), addr: h.nextAddr(),
		shown: make([]byte, len(bytes))}
	h.listed(r, "no key opens it")
	return r
}

// Did notes what neither the program nor the device of this world does, but a real system or NIC,
// and does it.
func (h *Host) Did(text string, do func()) {
	do()
	h.note("cpu", 0, text)
	h.w.moment()
}
