// What checks the types, with the analyzers of go vet: a module of its own, so that nobody who uses
// goroce downloads them.
module github.com/goroce/goroce/internal/ci/types

go 1.26.0

require golang.org/x/tools v0.52.0

require (
	golang.org/x/mod v0.42.0 // indirect
	golang.org/x/sync v0.24.0 // indirect
)
