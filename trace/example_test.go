package trace_test

import (
	"fmt"
	"io"
	"log"
	"os"

	"github.com/goroce/goroce/trace"
)

// A capture file, packet by packet: how many READs a real rxe has asked for, and whether every
// packet is whole.
func Example() {
	file, err := os.Open("../testdata/captures/rping.pcapng")
	if err != nil {
		log.Fatal(err)
	}
	defer file.Close()
	src, err := trace.NewSource(file)
	if err != nil {
		log.Fatal(err)
	}
	reads, damaged := 0, 0
	for {
		p, err := src.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			log.Fatal(err)
		}
		if !p.Parsed {
			continue // nothing of RoCE
		}
		if p.Wire.BTH.Opcode().String() == "RC RDMA_READ_REQUEST" {
			reads++
		}
		if p.Problem != "" {
			damaged++
		}
	}
	fmt.Println(reads, "READs,", damaged, "damaged packets")
	// Output: 2 READs, 0 damaged packets
}
