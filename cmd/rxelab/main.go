// Command rxelab boots the rxe lab by hand: a small Linux guest with a real Soft-RoCE device, on a
// machine without RDMA.
//
//	sudo go run ./cmd/rxelab run -- ibv_devinfo   boot, run one command in the guest
//	sudo go run ./cmd/rxelab shell                boot, give a shell in the guest
//	sudo go run ./cmd/rxelab image                build the guest's image, print where it is
//	sudo go run ./cmd/rxelab clean                remove all images
//
// The first exits with the command's status.
package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/goroce/goroce/interop/lab"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	err := newRoot().ExecuteContext(ctx)
	if err == nil {
		return
	}
	// An error that nothing wraps is that of the user's command, which has spoken for itself.
	if exit, ok := err.(*lab.ExitError); ok {
		if exit.Signal != 0 {
			os.Exit(128 + int(exit.Signal))
		}
		os.Exit(exit.Code)
	}
	fmt.Fprintln(os.Stderr, "rxelab:", err)
	if ctx.Err() != nil {
		os.Exit(130)
	}
	os.Exit(1)
}

// options are the flags that all subcommands share.
type options struct {
	cfg     lab.Config
	netem   string
	quiet   bool
	console bool
}

func newRoot() *cobra.Command {
	var opt options
	root := &cobra.Command{
		Use:   "rxelab",
		Short: "Boot a Linux guest with a real Soft-RoCE device, rxe0",
		Long: `rxelab boots a small virtual machine (QEMU, software emulation) with Debian's kernel and a real rxe0, on a wire to a network
namespace of this machine, and takes all of it away again at the end. It needs root. The first time it downloads packages of Debian
and builds an image, which a cache keeps. Run it inside of this repository: it compiles what runs in the guest.`,
		Example: `  sudo rxelab run -- ibv_devinfo
  sudo rxelab shell
  sudo rxelab run --netem "loss 1% delay 1ms" -- ping -c 2 192.0.2.1`,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	flags := root.PersistentFlags()
	flags.StringVar(&opt.cfg.Kernel, "kernel", "",
		"series of the guest's kernel, such as 6.1, or newest (default: 6.12, else 6.1)")
	flags.StringVar(&opt.cfg.Suite, "suite", "",
		"a `suite` of Debian to look for kernels in too, such as trixie-backports")
	flags.BoolVar(&opt.cfg.Wire, "wire", false, "two more network cards in the guest, joined: "+lab.WireA+
		" and "+lab.WireB)
	flags.BoolVar(&opt.cfg.Python, "python", false, "add python3 with pyverbs to the guest")
	flags.IntVar(&opt.cfg.MTU, "mtu", lab.DefaultMTU, "MTU of both ends of the wire")
	flags.IntVar(&opt.cfg.CPUs, "cpus", 0, "processors of the guest (default 2, of the newest kernel 1)")
	flags.IntVar(&opt.cfg.Memory, "memory", 0, "memory of the guest in MiB (default 1024, with --wire 3072)")
	flags.StringVar(&opt.netem, "netem", "",
		"spoil both directions of the wire, in the words of tc-netem(8), such as \"loss 1% delay 1ms\"")
	flags.BoolVarP(&opt.quiet, "quiet", "q", false, "do not report progress")
	flags.BoolVar(&opt.console, "console", false, "show the guest's console")
	root.AddCommand(newRun(&opt), newShell(&opt), newImage(&opt), newClean())
	return root
}

// start boots the lab as the flags say.
func (opt *options) start(ctx context.Context) (*lab.Lab, error) {
	if opt.console {
		opt.cfg.Console = os.Stderr
	}
	opt.cfg.Log = opt.log()
	l, err := lab.Start(ctx, opt.cfg)
	if err != nil {
		return nil, err
	}
	if opt.netem != "" {
		if err := l.Netem(ctx, lab.Both, opt.netem); err != nil {
			l.Close()
			return nil, err
		}
	}
	return l, nil
}

func (opt *options) log() io.Writer {
	if opt.quiet {
		return nil
	}
	return os.Stderr
}

func newRun(opt *options) *cobra.Command {
	var copies []string
	cmd := &cobra.Command{
		Use:   "run [flags] -- COMMAND [ARGUMENT...]",
		Short: "Boot, run a command in the guest, exit with its status",
		Example: `  sudo rxelab run -- ibv_devinfo
  sudo rxelab run --copy first -- /root/first
  sudo rxelab run --kernel 6.1 -- uname -r`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return fmt.Errorf("the command is missing: %s", cmd.UseLine())
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			for _, here := range copies { // before anything boots
				if _, err := os.Stat(here); err != nil {
					return fmt.Errorf("--copy: %w", err)
				}
			}
			l, err := opt.start(cmd.Context())
			if err != nil {
				return err
			}
			defer l.Close()
			for _, here := range copies {
				if err := l.CopyFile(cmd.Context(), here, "/root/"+filepath.Base(here)); err != nil {
					return err
				}
			}
			return runInGuest(cmd.Context(), l, args...)
		},
	}
	cmd.Flags().StringArrayVar(&copies, "copy", nil, "copy this `file` to /root in the guest first (may be repeated)")
	return cmd
}

func runInGuest(ctx context.Context, l *lab.Lab, argv ...string) error {
	c := l.Command(ctx, argv[0], argv[1:]...)
	c.Stdin, c.Stdout, c.Stderr = os.Stdin, os.Stdout, os.Stderr
	return c.Run()
}

func newShell(opt *options) *cobra.Command {
	return &cobra.Command{
		Use:   "shell",
		Short: "Boot, give a line shell in the guest",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			l, err := opt.start(cmd.Context())
			if err != nil {
				return err
			}
			defer l.Close()
			fmt.Fprintf(os.Stderr, "rxelab: the guest is %s and %s, this end is %s and %s on %s\n",
				lab.GuestIPv4, lab.GuestIPv6, lab.HostIPv4, lab.HostIPv6, lab.Tap)
			for _, g := range l.GIDs() {
				fmt.Fprintf(os.Stderr, "rxelab: %s GID[%d] %s (%s)\n", lab.Device, g.Index, g.Addr, g.Type)
			}
			fmt.Fprintf(os.Stderr, "rxelab: to join the host's end: nsenter --net=/proc/%d/ns/net\n", l.PID())
			fmt.Fprintf(os.Stderr,
				"rxelab: a shell without terminal follows; it ends with \"exit\", end of input or Ctrl-C\n")
			return runInGuest(cmd.Context(), l, "sh", "-i")
		},
	}
}

func newImage(opt *options) *cobra.Command {
	var refresh bool
	cmd := &cobra.Command{
		Use:   "image",
		Short: "Build the guest's image if the cache has none, print where it is",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			im, err := lab.EnsureImage(cmd.Context(), lab.ImageOptions{
				Kernel:  opt.cfg.Kernel,
				Suite:   opt.cfg.Suite,
				Refresh: refresh,
				Log:     opt.log(),
			})
			if err != nil {
				return err
			}
			fmt.Printf("%s\n%d bytes, kernel package %s, built in %.1f s\n",
				im.Dir, im.Size(), im.Manifest.Kernel, im.Manifest.BuildSeconds)
			for _, name := range slices.Sorted(maps.Keys(im.Manifest.Sizes)) {
				fmt.Printf("%12d %s\n", im.Manifest.Sizes[name], name)
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&refresh, "refresh", false, "build anew with the packages that the apt sources have now")
	return cmd
}

func newClean() *cobra.Command {
	return &cobra.Command{
		Use:   "clean",
		Short: "Remove all images from the cache",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, args []string) error { return lab.CleanImages(cmd.Context()) },
	}
}
