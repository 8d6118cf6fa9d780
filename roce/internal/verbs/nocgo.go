//go:build verbs && !cgo

package verbs

// The tag verbs asks for libibverbs, which only cgo can call: set CGO_ENABLED=1, and have a C
// compiler, or build without the tag. This does not compile, and says why.
const _ = the_tag_verbs_needs_cgo
