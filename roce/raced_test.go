//go:build race

package roce

const raced = true
