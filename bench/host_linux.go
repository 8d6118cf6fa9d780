package main

// The cases on this machine: ceilings, competitors, goroce on each port that works here, and what shows from inside.

import (
	"context"
	"fmt"
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
	run := h.Run
	if p.Together {
		run = h.RunTogether
	}
	return run(ctx, stage.Play{Server: stage.Program(p.Server), Client: stage.Program(p.Client),
		Ready: stage.Port{Proto: p.Proto, Number: p.Port}, Limit: limit})
}

// ends are the two sides as command lines name them.
func (h hostStage) ends() (a, b Side) {
	side := func(e *stage.End) Side { return Side{e.Interface, e.Addr, e.MAC} }
	return side(h.A), side(h.B)
}

// workingPorts are the ports of the stage that roce has a device on, and why there is none on the
// others.
func workingPorts(ctx context.Context, h hostStage, set Setting) (ports, missing []string) {
	for _, port := range allPorts {
		if err := tryPort(ctx, h, set, port); err != nil {
			missing = append(missing, err.Error())
			continue
		}
		ports = append(ports, port)
	}
	return ports, missing
}

// tryPort asks roce for its device on a port.
func tryPort(ctx context.Context, h hostStage, set Setting, port string) error {
	if _, err := h.A.Run(ctx, stage.Program(words(set.Roce+" devinfo -d "+port+":"+set.A.Interface)), 30*time.Second); err != nil {
		return fmt.Errorf("goroce on port %s: %w", port, err)
	}
	return nil
}
