//go:build !linux

package rdmacm

import (
	"github.com/goroce/goroce/cm"
	"github.com/goroce/goroce/roce"
)

// atHub is for Linux.
type atHub struct{ QP1 }

func hubOf(*roce.Device) *atHub { return nil }

func (*atHub) commID() func(uint32) uint32 { return nil }

func (*atHub) listen(uint64, *cm.ListenOptions) error { return nil }

func (*atHub) unlisten(uint64, *cm.ListenOptions) {}
