package soft

// ticks reads the time stamp counter of the processor.
func ticks() uint64
