//go:build linux && dropin

package launch

import (
	"embed"
	"io/fs"
)

// Made by "make roce-dropin" before it builds this.
//
//go:embed libraries/*.so*
var carried embed.FS

func init() { embedded, _ = fs.Sub(carried, "libraries") }
