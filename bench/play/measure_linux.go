package play

// A run. What could not be had goes into the results; an error is one that leaves nothing to
// report. After each bout everything so far is written, with a word that it is not all, so that a
// long run that is interrupted loses little and leaves nothing old beside what is new.

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/goroce/goroce/bench/figures"
	"github.com/goroce/goroce/bench/repertoire"
)

// run is what a run needs to play bouts.
type run struct {
	Options
	set      figures.Setting
	results  *figures.Results
	progress io.Writer
}

// Measure plays the chosen bouts and returns them.
func Measure(ctx context.Context, o Options, choice func(*figures.Case) bool, r *figures.Results,
	progress io.Writer) (bouts []figures.Bout, err error) {
	dir, err := os.MkdirTemp("", "goroce-bench-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	if o.Out != "" { // better to fail now
		if err := os.MkdirAll(o.Out, 0o755); err != nil {
			return nil, err
		}
	}
	m := run{o, figures.Setting{Duration: o.Duration}, r, progress}
	if err := m.prepare(ctx, dir); err != nil {
		return nil, err
	}
	if repertoire.HasMPI(choice) {
		m.set.MPI = filepath.Join(dir, "mpi")
		if err := buildMPI(ctx, m.set.MPI); err != nil {
			r.Missing = append(r.Missing, err.Error())
		}
	}
	host, err := newHostStage()
	if err != nil {
		return nil, err
	}
	defer host.Close()
	m.set.A, m.set.B = host.ends()
	r.Machine.Congestion = host.congestionControl()
	ports, missing := workingPorts(ctx, host, m.set)
	r.Missing = append(r.Missing, missing...)
	bouts = figures.Chosen(repertoire.AllBouts(ports), choice)
	if err := host.be(figures.Link{Big: true}); err != nil { // the kernel is older
		r.Missing = append(r.Missing, "TCP in runs of more than 64 KiB: "+err.Error())
		bouts = figures.Chosen(bouts, func(c *figures.Case) bool { return !c.Play(m.set).Link.Big })
	}
	if r.Machine.Busy = othersLoad(longLook); r.Machine.Busy > figures.Quiet {
		fmt.Fprintf(progress, "%s processors are busy with something else: figures and costs will tell of that too\n",
			figures.Number(r.Machine.Busy))
	}
	if o.PGO != "" {
		return bouts, profileAll(ctx, host, m.set, bouts, o.PGO, progress)
	}
	if err := m.play(ctx, host, figures.OnStage, bouts); err != nil {
		return nil, err
	}
	if o.Out != "" && ctx.Err() == nil {
		profileExtremes(ctx, host, m.set, bouts, r, progress)
	}
	host.Close()
	if !o.Guest {
		return bouts, nil
	}
	for _, place := range []figures.Place{figures.InGuest, figures.OnWire} {
		if err := m.playInGuest(ctx, place, bouts); err != nil {
			r.Missing = append(r.Missing, err.Error())
		}
	}
	return bouts, nil
}

// prepare fetches the rivals and builds the command in a folder, with and without its profile.
func (m *run) prepare(ctx context.Context, dir string) (err error) {
	r := m.results
	if m.set.Bench, err = os.Executable(); err != nil {
		return err
	}
	m.set.Roce = filepath.Join(dir, "roce")
	if err := build(ctx, ".", "cmd/roce", m.set.Roce); err != nil {
		r.Missing = append(r.Missing, "goroce: "+err.Error())
	}
	if m.PGO != "" {
		return nil
	}
	m.set.RoceNoPGO = filepath.Join(dir, "roce-nopgo")
	if m.Full || m.Only != "" {
		if err := build(ctx, ".", "cmd/roce", m.set.RoceNoPGO, "-pgo=off"); err != nil {
			r.Missing = append(r.Missing, "goroce without its profile: "+err.Error())
		}
	}
	r.Missing = append(r.Missing, fetchRivals(ctx, m.progress)...)
	r.Machine.Rivals = rivalVersions(ctx)
	return nil
}

// play plays the bouts of a place in a shuffled order.
func (m *run) play(ctx context.Context, t theatre, where figures.Place, bouts []figures.Bout) error {
	for _, i := range m.results.Chance.Perm(len(bouts)) {
		b := &bouts[i]
		if b.Place != where {
			continue
		}
		m.results.Order = append(m.results.Order, b.Name)
		playBout(ctx, t, m.set, b, b.Times(m.Rounds), m.results, m.progress)
		if m.Out != "" {
			m.results.Judge(bouts)
			if err := m.results.Write(m.Out); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(b.Rest):
		}
	}
	return nil
}

// guests are where bouts are played that this machine has no stage for.
var guests = map[figures.Place]struct {
	name string
	open func(ctx context.Context, roce string) (*guest, error)
	a, b figures.Side
	say  func(m *figures.Machine, g *guest)
}{
	figures.InGuest: {"the guest with rxe", openGuest, repertoire.GuestA, repertoire.GuestB,
		func(m *figures.Machine, g *guest) {
			m.Guest = g.describe()
		}},
	figures.OnWire: {"the wire between two drivers", openWire, repertoire.WireA, repertoire.WireB,
		func(m *figures.Machine, g *guest) {
			m.Wire = "Linux " + g.Kernel() + " under QEMU's emulation (TCG), 1 processor, two virtio_net cards of " +
				"MTU 3814, joined by a bridge of the host"
		}},
}

// playInGuest boots the guest of a place, if there is anything to play there.
func (m run) playInGuest(ctx context.Context, where figures.Place, bouts []figures.Bout) error {
	wanted := false
	for _, b := range bouts {
		wanted = wanted || b.Place == where
	}
	if !wanted || ctx.Err() != nil {
		return nil
	}
	k := guests[where]
	g, err := k.open(ctx, m.set.Roce)
	if err != nil {
		return fmt.Errorf("%s: %w", k.name, err)
	}
	defer g.Close()
	k.say(&m.results.Machine, g)
	m.set.Roce, m.set.Bench, m.set.A, m.set.B = repertoire.GuestRoce, repertoire.GuestBench, k.a, k.b
	return m.play(ctx, g, where, bouts)
}
