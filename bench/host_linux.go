package main

// The cases on this machine: ceilings, competitors, goroce on each port that works here, and what shows from inside.

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/goroce/goroce/bench/stage"
)

// hostStage is the stage as a theatre.
type hostStage struct{ *stage.Stage }

func (h hostStage) perform(ctx context.Context, p Play, limit time.Duration) (server, client []byte, err error) {
	for _, c := range p.Before {
		if _, err := h.A.Run(ctx, stage.Program(c), limit); err != nil {
			return nil, nil, err
		}
	}
	if len(p.Server.Args) == 0 {
		client, err = h.A.Run(ctx, stage.Program(p.Client), limit)
		return nil, client, err
	}
	return h.Run(ctx, stage.Play{Server: stage.Program(p.Server), Client: stage.Program(p.Client),
		Ready: stage.Port{Proto: p.Proto, Number: p.Port}, Limit: limit})
}

// ends are the two sides as command lines name them.
func (h hostStage) ends() (a, b Side) {
	side := func(e *stage.End) Side { return Side{e.Interface, e.Addr, e.MAC} }
	return side(h.A), side(h.B)
}

// workingPorts asks roce which ports work on the stage, and says why the others do not.
func workingPorts(ctx context.Context, h hostStage, set Setting) (ports, missing []string) {
	text, err := h.A.Run(ctx, stage.Program(words(set.Roce+" devices --json")), 30*time.Second)
	var devices []struct {
		Name      string `json:"device"`
		Interface string `json:"interface"`
		Works     bool   `json:"works"`
		Missing   string `json:"missing"`
	}
	if err == nil {
		err = json.Unmarshal(text, &devices)
	}
	if err != nil {
		return nil, []string{fmt.Sprintf("goroce: roce devices: %v", err)}
	}
	for _, port := range allPorts {
		reason := "roce devices does not list it on a veth interface"
		for _, d := range devices {
			if strings.HasPrefix(d.Name, port+":") && d.Interface == set.A.Interface {
				reason = d.Missing
				if d.Works {
					ports = append(ports, port)
					reason = ""
				}
				break
			}
		}
		if reason != "" {
			missing = append(missing, fmt.Sprintf("goroce on port %s: %s", port, reason))
		}
	}
	return ports, missing
}
