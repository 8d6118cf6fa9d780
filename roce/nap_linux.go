package roce

import "time"

func nap(d time.Duration) { time.Sleep(d) }
