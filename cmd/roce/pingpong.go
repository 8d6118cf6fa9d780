package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/goroce/goroce/cmd/roce/internal/perf"
	"github.com/goroce/goroce/cmd/roce/internal/pingpong"
	"github.com/goroce/goroce/roce"
)

// oobPort is where the verbs' test programs meet.
const oobPort = 18515

// qpTypes are the names of the services that the test programs know.
var qpTypes = map[string]roce.QPType{"RC": roce.RC, "UC": roce.UC, "UD": roce.UD}

func qpType(flag, name string) (roce.QPType, error) {
	t, ok := qpTypes[strings.ToUpper(name)]
	if !ok {
		return 0, fmt.Errorf("--%s %q: want rc, uc or ud", flag, name)
	}
	return t, nil
}

func pingpongCommand() *cobra.Command {
	var o pingpong.Options
	var kind string
	var size perf.Size
	c := &cobra.Command{
		Use: "pingpong [HOST]",
		Short: "Bounce messages off a peer, as ibv_rc_pingpong, ibv_uc_pingpong, ibv_ud_pingpong and " +
			"ibv_srq_pingpong do",
		Long: `pingpong waits for a peer, or with a host connects to one that waits. The peer is another "roce pingpong" or one of
the verbs' programs, which needs -g and the index of a RoCE v2 GID there. Size, iterations and path MTU are not exchanged:
give both ends the same.

Without --dev the device is the address over which the two ends reach each other.`,
		Example: `  roce pingpong                              server
  roce pingpong 10.0.0.1                     client of it, or of "ibv_rc_pingpong -g 1" on 10.0.0.1
  roce pingpong --type ud -s 1024 10.0.0.1   datagrams, as ibv_ud_pingpong
  roce pingpong --srq -q 16 10.0.0.1         16 queue pairs with one receive queue, as ibv_srq_pingpong
  roce pingpong -n 100 -s 1M -m 4096 -c      compare every byte that comes`,
		Args: operands(0, 1),
		RunE: func(c *cobra.Command, args []string) (err error) {
			if o.Type, err = qpType("type", kind); err != nil {
				return err
			}
			if len(args) > 0 {
				o.Host = args[0]
			}
			o.Size = int(size)
			return pingpong.Run(c.Context(), c.OutOrStdout(), o)
		},
	}
	f := c.Flags()
	f.SortFlags = false
	f.StringVarP(&kind, "type", "t", "rc", "transport service: rc, uc or ud")
	f.BoolVar(&o.SRQ, "srq", false, "many queue pairs that share a receive queue (rc)")
	f.IntVarP(&o.QPs, "num-qp", "q", 16, "with --srq: how many; both ends need the same")
	f.IntVarP(&o.Port, "port", "p", oobPort, "TCP `port` on which the two ends meet")
	f.StringVarP(&o.Dev, "dev", "d", "", "device `name`, see \"roce devices\"")
	f.VarP(&size, "size", "s", "message size, such as 4096, 64K, 1M (default 4096, ud 1024)")
	f.IntVarP(&o.MTU, "mtu", "m", 1024,
		"path MTU in bytes: 256, 512, 1024, 2048 or 4096, at most the port's (rc and uc)")
	f.IntVarP(&o.RxDepth, "rx-depth", "r", 500, "receives posted at a time")
	f.IntVarP(&o.Iters, "iters", "n", 1000, "messages each way")
	f.IntVarP(&o.SL, "sl", "l", 0, "service level")
	f.BoolVarP(&o.Events, "events", "e", false, "sleep until a completion comes instead of polling")
	f.IntVarP(&o.Timeout, "qp-timeout", "u", 14, "code of the ack timeout: 4.096 us * 2^n (rc)")
	f.IntVarP(&o.GIDIndex, "gid-idx", "g", 0, "row of the device's GID table")
	faultFlag(f, &o.Faults)
	f.BoolVarP(&o.Check, "chk", "c", false, "compare every byte; both ends need it")
	f.BoolVar(&o.JSON, "json", false, "print the result as JSON")
	f.DurationVar(&o.Stall, "stall", 10*time.Second, "give up when nothing comes for so long")
	recordFlags(c, &o.Pcap, &o.Records)
	return c
}
