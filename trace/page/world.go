package page

// The program of the simulated world: not there yet.

func hasWorld() bool       { return false }
func worldSupport() string { return "" }
func worldProgram() []byte { return nil }
