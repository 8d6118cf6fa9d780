package page

// The program of the simulated world: WebAssembly, and the JavaScript that Go's programs need
// there. Both are members of one gzip file, which go generate makes (world_test.go): the first is
// wasm_exec.js of the compiler's own distribution, the second the program of folder wasm, which
// goes to the browser as it is.

import (
	"bytes"
	"compress/gzip"
	_ "embed"
	"io"
	"sync"
)

//go:generate go test . -count=1 -run ^TestWorldIsFresh$ -generate

//go:embed world.gz
var packed []byte

// worldParts are the members of world.gz: the first unpacked, the second as it is.
type worldParts struct {
	support string
	program []byte
}

var unpacked = sync.OnceValue(func() (w worldParts) {
	rest := bytes.NewReader(packed)
	z, err := gzip.NewReader(rest)
	if err != nil {
		panic(err) // it is embedded, or the program is not whole
	}
	z.Multistream(false)
	text, err := io.ReadAll(z)
	if err != nil {
		panic(err)
	}
	return worldParts{string(text), packed[len(packed)-rest.Len():]}
})

// worldSupport is JavaScript that defines Go, which worldProgram, compressed, is run by.
func worldSupport() string { return unpacked().support }
func worldProgram() []byte { return unpacked().program }
