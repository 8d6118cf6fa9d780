package roce_test

import (
	"context"
	"fmt"
	"log"

	"github.com/goroce/goroce/roce"
)

// side is what each end of a connection needs: a device, memory, a completion queue and a queue
// pair.
func side(name string, memory []byte) (*roce.Device, *roce.QP, *roce.MR) {
	dev, err := roce.Open(name, nil)
	check(err)
	pd, err := dev.AllocPD()
	check(err)
	cq, err := dev.CreateCQ(roce.CQInitAttr{CQE: 16})
	check(err)
	qp, err := pd.CreateQP(roce.QPInitAttr{SendCQ: cq})
	check(err)
	mr, err := pd.RegMR(memory, roce.LocalWrite|roce.RemoteWrite)
	check(err)
	return dev, qp, mr
}

// Two devices on this machine (all of 127.0.0.0/8 is there to be used): one writes into the memory
// of the other, whose application does nothing. No privilege, no hardware, no kernel module.
func Example() {
	memory := make([]byte, 64)
	a, qpA, mrA := side("udp:127.1.2.3", []byte("RDMA in pure Go"))
	b, qpB, mrB := side("udp:127.1.2.4", memory)

	// Both sides must know each other's Endpoint, and the writer the key and address of the memory.
	// Between two programs they travel by any other means, as text.
	check(qpA.Connect(context.Background(), qpB.Endpoint(), nil))
	check(qpB.Connect(context.Background(), qpA.Endpoint(), nil))

	check(qpA.PostSend(roce.SendWR{WRID: 1, Opcode: roce.WRWrite, Flags: roce.SendSignaled,
		SGL: []roce.SGE{mrA.SGE(0, mrA.Len())}, RemoteAddr: mrB.Addr(), RKey: mrB.RKey()}))
	var wcs [1]roce.WC
	_, err := qpA.SendCQ().Wait(context.Background(), wcs[:])
	check(err)
	fmt.Printf("request %d, %v: %v\n", wcs[0].WRID, wcs[0].Opcode, wcs[0].Status)
	fmt.Printf("%s\n", memory[:15])

	for _, c := range []interface{ Close() error }{qpA, qpB, mrA, mrB, qpA.SendCQ(), qpB.SendCQ(), qpA.PD(), qpB.PD(), a, b} {
		check(c.Close())
	}
	// Output:
	// request 1, RDMA_WRITE: success
	// RDMA in pure Go
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
