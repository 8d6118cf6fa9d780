//go:build !linux

package udp

import (
	"testing"

	"github.com/goroce/goroce/transport/internal/porttest"
)

// moreKinds are none without network namespaces.
func moreKinds(testing.TB) []porttest.Kind { return nil }
