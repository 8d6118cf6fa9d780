package perf

// The values of flags, as people type them: sizes, times, rates.

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Size is a flag value: a number of bytes, "64K" or "1M".
type Size int

// String prints the number.
func (s *Size) String() string { return strconv.Itoa(int(*s)) }

// Type names the value in the help text.
func (s *Size) Type() string { return "bytes" }

// Set reads the number.
func (s *Size) Set(text string) error {
	digits, shift := text, 0
	switch {
	case strings.HasSuffix(strings.ToUpper(text), "K"):
		digits, shift = text[:len(text)-1], 10
	case strings.HasSuffix(strings.ToUpper(text), "M"):
		digits, shift = text[:len(text)-1], 20
	}
	n, err := strconv.Atoi(digits)
	if err != nil || n < 0 || n > 1<<30>>shift {
		return fmt.Errorf("%q: want a number of bytes up to 1 GiB, such as 8, 64K or 1M", text)
	}
	*s = Size(n << shift)
	return nil
}

// Seconds is a flag value: perftest's number of seconds, or a duration with its unit.
type Seconds time.Duration

// String prints the duration; no duration is nothing.
func (s *Seconds) String() string {
	if *s == 0 {
		return ""
	}
	return time.Duration(*s).String()
}

// Type names the value in the help text.
func (s *Seconds) Type() string { return "seconds" }

// Set reads "5" or "1m30s".
func (s *Seconds) Set(text string) error {
	if _, err := strconv.Atoi(text); err == nil {
		text += "s"
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		return fmt.Errorf("%q: want a number of seconds such as 5, or 1m30s", text)
	}
	*s = Seconds(d)
	return nil
}
