package told

import "strings"

// rules is the document that has the rules.
const rules = "https://github.com/goroce/goroce/blob/main/docs/rocev2.md"

// titles are those of its sections that sentences name.
var titles = map[string]string{
	"1.13": "rxe receive filter order (any failure = silent drop) [rxe]",
	"3.1":  "Definition",
	"4.3":  "AckReq (A bit) – what senders set",
	"4.4":  "What an incoming response means to the requester",
	"4.5":  "Responder decision table (RC)",
	"4.6":  "Responder resources for READ/ATOMIC",
	"4.7":  "Timers and counters",
	"5.2":  "What is allowed/processed in each state",
	"6.1":  "Requester, per WR",
	"6.3":  "Error table (RC responder → requester)",
	"6.4":  "UC and UD responder",
	"10.1": "Roles",
	"10.2": "CNP generation",
	"10.3": "DCQCN reaction point",
}

// anchor is the end of a link to a section.
func anchor(section string) string {
	var b strings.Builder
	for _, r := range strings.ToLower(section + " " + titles[section]) {
		switch {
		case r == ' ':
			b.WriteByte('-')
		case r == '-' || r >= 'a' && r <= 'z' || r >= '0' && r <= '9':
			b.WriteRune(r)
		}
	}
	return "#" + b.String()
}
