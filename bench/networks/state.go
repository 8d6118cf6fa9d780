//go:build linux

package networks

// What has been played: a line of JSON for each, in a file that grows, so that nothing is lost when
// a run is stopped. Only what was played by programs of one commit counts together.

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"
)

// Record is one play of a case.
type Record struct {
	Case   string    `json:"case"`
	Commit string    `json:"commit"`
	At     time.Time `json:"at"`
	// Flows are each flow's payload, in Gbit/s.
	Flows  []float64 `json:"flows,omitempty"`
	Lost   float64   `json:"lost"`             // at the switch, percent of the packets
	Resent float64   `json:"resent,omitempty"` // of ours, percent
	P99    float64   `json:"p99_ms,omitempty"` // of exchanges
}

// State is a file of records.
type State struct {
	name    string
	commit  string
	records map[string][]Record
}

// Load reads the records of a commit from a file, which need not be there.
func Load(name, commit string) (*State, error) {
	s := &State{name: name, commit: commit, records: map[string][]Record{}}
	f, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	for lines, n := bufio.NewScanner(f), 1; lines.Scan(); n++ {
		var r Record
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return nil, fmt.Errorf("%s:%d: %w: remove the line, which a run that was killed may have left", name, n,
				err)
		}
		if r.Commit == commit {
			s.records[r.Case] = append(s.records[r.Case], r)
		}
	}
	return s, nil
}

// Add notes a play.
func (s *State) Add(r Record) error {
	r.Commit, r.At = s.commit, time.Now().UTC().Round(time.Second)
	line, err := json.Marshal(r)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(s.name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(append(line, '\n'))
	s.records[r.Case] = append(s.records[r.Case], r)
	return errors.Join(err, f.Close())
}

// Times is how often a case has been played.
func (s *State) Times(name string) int { return len(s.records[name]) }
