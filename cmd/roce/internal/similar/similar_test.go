package similar

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTo(t *testing.T) {
	all := []string{"write", "read", "uc", "ud", "wan", "num-sge", "num-sge-zero", "lost-ack", "lost-atomic", "write"}
	for word, want := range map[string][]string{
		"wirte":   {"write"},
		"writ":    {"write"},
		"WRITE":   {"write"},
		"raed":    {"read"},
		"lostack": {"lost-ack"},
		"sge":     {"num-sge", "num-sge-zero"},
		"nosuch":  nil,
		"uv":      {"uc", "ud"},
		"":        nil,
		"rewrite": {"write"},
		"lost":    {"lost-ack", "lost-atomic"},
	} {
		require.Equal(t, want, To(word, all), word)
	}
}
