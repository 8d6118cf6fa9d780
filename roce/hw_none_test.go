//go:build !double && !verbs

package roce

import "testing"

func TestVerbsWantTheirTag(t *testing.T) {
	_, err := Open("verbs:mlx5_0", nil)
	refused(t, err, ErrNotSupported, "go build -tags verbs")
}
