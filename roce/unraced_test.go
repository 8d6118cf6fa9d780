//go:build !race

package roce

const raced = false
