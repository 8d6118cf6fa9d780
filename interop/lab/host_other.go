//go:build !linux

package lab

// The lab needs Linux: a network namespace, a tap device, QEMU as a child that dies with its
// thread. On other systems every attempt says so; interop tests skip with this reason.

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"runtime"
)

const unsupported = "Linux: the lab is made of a network namespace and a tap device (this is " + runtime.GOOS + ")"

var errUnsupported = errors.New("the rxe lab cannot run here; missing: " + unsupported)

var errClosed = errors.New("the lab is closed")

type netns struct{}

func newNetns() (*netns, error)                { return nil, errUnsupported }
func (*netns) Do(func() error) error           { return errUnsupported }
func (*netns) Start(*exec.Cmd) error           { return errUnsupported }
func (*netns) startApart(*exec.Cmd) error      { return errUnsupported }
func (*netns) addTap(int) (*os.File, error)    { return nil, errUnsupported }
func (*netns) addWire(int, int) error          { return errUnsupported }
func (*netns) Close()                          {}
func memoryFile(string) (*os.File, error)      { return nil, errUnsupported }
func agentSockets() (a, b *os.File, err error) { return nil, nil, errUnsupported }

func lockCache(context.Context, string) (func(), error) { return nil, errUnsupported }
