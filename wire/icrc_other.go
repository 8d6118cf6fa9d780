//go:build !amd64 || purego

package wire

const haveWords = false

// icrcWords stands for the routine that other processors have.
func icrcWords(f *Frame) (crc uint32, ok bool) { return 0, false }
