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
	case strings.HasSuffix(strings.ToUpper(text), "G"):
		digits, shift = text[:len(text)-1], 30
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

// Rate is a flag value: bits or messages a second; the zero value is no limit.
type Rate struct {
	Bits     float64
	Messages float64
	bare     bool // a number without a unit: Bits holds Gbit/s until --rate-units says otherwise
}

// rateUnits are what may follow the number: perftest's three and the usual multiples. Bits count in
// powers of 1000.
var rateUnits = []struct {
	suffix string
	rate   Rate // of 1
}{
	{"mibps", Rate{Bits: 8 << 20}},
	{"gpps", Rate{Messages: 1e9}}, {"mpps", Rate{Messages: 1e6}}, {"kpps", Rate{Messages: 1e3}},
	{"pps", Rate{Messages: 1}},
	{"gbps", Rate{Bits: 1e9}}, {"mbps", Rate{Bits: 1e6}}, {"kbps", Rate{Bits: 1e3}}, {"bps", Rate{Bits: 1}},
	{"g", Rate{Bits: 1e9}}, {"m", Rate{Bits: 1e6}}, {"k", Rate{Bits: 1e3}},
	{"", Rate{Bits: 1e9, bare: true}},
}

// String prints the rate in bits or messages a second; no limit is nothing.
func (r *Rate) String() string {
	switch {
	case r.Messages > 0:
		return strconv.FormatFloat(r.Messages, 'g', -1, 64) + "pps"
	case r.Bits > 0:
		return strconv.FormatFloat(r.Bits, 'g', -1, 64) + "bps"
	}
	return ""
}

// Type names the value in the help text.
func (r *Rate) Type() string { return "rate" }

// Set reads the rate.
func (r *Rate) Set(text string) error {
	for _, u := range rateUnits {
		digits, ok := strings.CutSuffix(strings.ToLower(text), u.suffix)
		if !ok {
			continue
		}
		n, err := strconv.ParseFloat(digits, 64)
		if err != nil || !(n > 0 && n <= 1e15) {
			break
		}
		*r = Rate{Bits: u.rate.Bits * n, Messages: u.rate.Messages * n, bare: u.rate.bare}
		return nil
	}
	return fmt.Errorf("%q: want bits a second, such as 10G or 500M, messages a second, such as 1.5Mpps, or 100MiBps; "+
		"a number alone is Gbit/s", text)
}

// unit gives a bare number the unit of perftest's --rate_units: g (Gbit/s, the default), M (MiB/s)
// or p (messages a second).
func (r *Rate) unit(name string) error {
	of, ok := map[string]Rate{"": {Bits: 1e9}, "g": {Bits: 1e9}, "M": {Bits: 8 << 20}, "p": {Messages: 1}}[name]
	switch {
	case !ok:
		return fmt.Errorf("--rate-units %q: want g, M or p", name)
	case name != "" && !r.bare:
		return fmt.Errorf("--rate-units %s: the --rate-limit %v has its unit already, or there is none", name, r)
	case r.bare:
		n := r.Bits / 1e9
		*r = Rate{Bits: of.Bits * n, Messages: of.Messages * n}
	}
	return nil
}

// messages is the rate in messages of a size a second; 0 is no limit.
func (r *Rate) messages(size int) float64 {
	if r.Messages > 0 {
		return r.Messages
	}
	return r.Bits / 8 / float64(size)
}
