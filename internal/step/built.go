package step

// Rewritten says that this is a rewritten build. There it is another file (rewrite.go).
const Rewritten = false
