//go:build !amd64 || purego

package wire

const haveWords = false

// icrcWords and icrcPayload stand for what other processors have.
func icrcWords(f *Frame) (crc uint32, ok bool) { return 0, false }

func icrcPayload(f *Frame, at int, payload []byte) (crc uint32, ok bool) { return 0, false }
