//go:build !linux

package ports

import "github.com/goroce/goroce/transport/internal/porttest"

func moreBenchKinds() []porttest.Kind { return nil }
