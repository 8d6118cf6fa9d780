package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/roce"
)

// execute runs the command line.
func execute(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	root := newRoot()
	root.SetOut(&out)
	root.SetErr(&out)
	root.SetArgs(args)
	err := root.ExecuteContext(t.Context())
	return out.String(), err
}

func TestEveryCommandHelps(t *testing.T) {
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		if c.Name() == "help" || c.Hidden {
			return
		}
		require.NotEmpty(t, c.Short, c.CommandPath())
		if c.Runnable() && c.Name() != "version" {
			require.Contains(t, c.Example, c.CommandPath(), "an example of %s", c.CommandPath())
		}
		c.Flags().VisitAll(func(f *pflag.Flag) { require.NotEmpty(t, f.Usage, "%s --%s", c.CommandPath(), f.Name) })
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	root := newRoot()
	root.InitDefaultHelpCmd()
	walk(root)
}

// TestErrorsAreText: what an error quotes may be a peer's, and a terminal gets it as text.
func TestErrorsAreText(t *testing.T) {
	require.Equal(t, "the server: \ufffd]0;owned\ufffd\nand more", said(errors.New("roce: the server: \x1b]0;owned\a\nand more")))
}

func TestMistakesAreNamed(t *testing.T) {
	for line, want := range map[string]string{
		"pingpong --srq --type ud":                     `--srq is for --type rc`,
		"pingpong --srq -r 8":                          `--rx-depth 8 is too small for 16 queue pairs`,
		"pingpong --type xrc":                          `--type "xrc": want rc, uc or ud`,
		"pingpong -m 1000 -p 1 nowhere.invalid":        "path MTU of 1000 bytes",
		"pingpong -p 1 nowhere.invalid":                `"nowhere.invalid" is neither an address nor the name of a machine`,
		"pingpong --stall 5":                           "want a time with its unit, such as 10s",
		"pingpong -n many":                             `invalid argument "many" for "-n, --iters" flag: want a whole number`,
		"pingpong --dev 127.0.0.1":                     "the kind of port is missing: udp:127.0.0.1",
		"pingpong -p 0":                                "--port 0: want 1 to 65535",
		"perf write-bw --lanes 3":                      "--lanes 3: want a power of two",
		"perf write-bw --dev udp:203.0.113.77":         "203.0.113.77 is not an address of this machine",
		"devcies":                                      `roce has no command "devcies" (is it devices?); "roce --help" lists all`,
		"trace decod x":                                "is it decode?",
		"wirte":                                        "(is it roce learn write?)",
		"write-bw":                                     "(is it roce perf write-bw?)",
		"ib_write_bw":                                  "(is it roce perf write-bw?)",
		"ib_raed_lat":                                  "(is it roce perf read-lat?)",
		"ibv_uc_pingpong":                              "(is it roce pingpong --type uc?)",
		"rpign":                                        "(is it rping?)",
		"perf wirte-bw":                                "(is it write-bw?)",
		"learn wirte":                                  "(is it write?)",
		"learn nosuch":                                 "there is no lesson \"nosuch\"; ",
		"learn quiz queus":                             "(is it queues?)",
		"help trace decod":                             `roce trace has no command "decod"`,
		"help write":                                   `roce has no command "write"`,
		"trace decode":                                 "something is missing: roce trace decode FILE [flags]",
		"trace decode --pcap x y":                      `unknown flag: --pcap; "roce trace decode --help" lists all`,
		"trace decode --from 7 --to 3 x":               "the last is before the first",
		"trace explain IBV_WC_NONE":                    "is no status",
		"trace explain x#third":                        "which packet?",
		"learn writ":                                   "(is it write?)",
		"learn write --change drop:9":                  "the lesson has packets 1 to 2",
		"devinfo 127.0.0.1":                            `"127.0.0.1" is one word too many: roce devinfo [--dev NAME]`,
		"perf write-bw -c XRC":                         `--connection "XRC"`,
		"perf atomic-bw -A SWAP":                       "FETCH_AND_ADD or CMP_AND_SWAP",
		"perf write-bw -s 1T":                          "want a number of bytes",
		"perf write-bw -D soon":                        "want a number of seconds",
		"trace capture lo --snap 20 -w x":              "--snap 20",
		"trace capture lo --files 3 -w x":              "--file-size or --file-time",
		"perf write-sideways":                          `has no command "write-sideways"`,
		"perf write-bw --rate-limit soon":              "want bits a second",
		"perf write-bw --rate_limit 5G --rate_units p": "has its unit",
		"perf send-bw --perform_warm_up":               "unknown flag",
		"perf write-bw --limit-bw -1":                  "want 0 or more",
		"devinfo -d udp:203.0.113.77":                  "203.0.113.77",
		"pingpong --fault tx.SEND:5:explode":           `--fault: `,
		"perf write-bw --fault CreateQP:0:ENOMEM":      `--fault: `,
		"perf write-bw a b":                            `"b" is one word too many behind "a": roce perf write-bw [HOST]`,
		"pingpong -p 70000":                            "70000",
		"demo --records":                               "--records goes into the file of --pcap",
		"demo --pcap /no/such/folder/demo.pcapng":      "no such file or directory",
	} {
		_, err := execute(t, strings.Fields(line)...)
		require.ErrorContains(t, err, want, line)
	}
}

// What a shell is offered: names where there are names, files where a file is wanted, else nothing.
func TestCompletion(t *testing.T) {
	for line, want := range map[string]string{
		"learn ":                            "write\tAn RDMA WRITE, step by step\n",
		"learn quiz ":                       "pages\t",
		"learn write ":                      ":4\n",
		"pingpong ":                         ":4\n",
		"pingpong 192.0.2.1 --dev ":         "udp:127.0.0.1\n",
		"perf write-bw -c ":                 "RC\nUC\nUD\n",
		"trace decode ":                     ":0\n",
		"trace decode --qp ":                ":4\n",
		"perf write-bw --plot ":             ":0\n",
		"help trace ":                       "ladder\t",
		"perf write-bw 192.0.2.1 --ib-dev ": ":4\n",
	} {
		out, err := execute(t, append([]string{"__complete"}, strings.Split(line, " ")...)...)
		require.NoError(t, err)
		require.Contains(t, out, want, line)
	}
}

// Long options of perftest are understood as perftest writes them.
func TestPerftestsNames(t *testing.T) {
	for line, want := range map[string]string{
		"--ib-dev=udp:203.0.113.77 --report_gbits --CPU-freq --qp=2 --cq-mod=4 --tx-depth=8 --post_list=4 --inline_size=8 " +
			"nowhere.invalid": "203.0.113.77 is not an address",
		"--qp=0x": "want a whole number",
		"--qp=-1": "--qps -1: want 1 to 16384",
	} {
		_, err := execute(t, append([]string{"perf", "write-bw"}, strings.Fields(line)...)...)
		require.ErrorContains(t, err, want, line)
	}
}

func TestVersion(t *testing.T) {
	out, err := execute(t, "version")
	require.NoError(t, err)
	require.Contains(t, out, "perftest 4.5")
}

func TestDevicesAsJSON(t *testing.T) {
	out, err := execute(t, "devices", "--json")
	require.NoError(t, err)
	var list []listed
	require.NoError(t, json.Unmarshal([]byte(out), &list))
	for _, l := range list {
		require.NotEqual(t, l.Works, l.Missing != "", "%+v", l)
		if strings.HasPrefix(l.Name, "udp:") { // of an interface, or of one of its addresses
			require.True(t, slices.ContainsFunc(list, func(all listed) bool { return all.Name == "udp:"+l.Interface }), "%+v", l)
		}
	}
}

// The table has a line a device; what those lack that do not work is below it, said once.
func TestDevicesPrinted(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, printDevices(&out, []listed{{Name: "udp:lo", Interface: "lo", MTU: 4096, GUID: "0000ffff7f000001", Works: true},
		{Name: "xdp:lo", Interface: "lo", MTU: 4096, Missing: "no"}, {Name: "xdp:::1", Interface: "lo", MTU: 4096, Missing: "no"}}))
	require.Equal(t, "    device    interface   MTU    node GUID          status\n"+
		"    ------    ---------   ---    ----------------   ------\n"+
		"    udp:lo    lo          4096   0000ffff7f000001   works\n"+
		"    xdp:lo    lo          4096                      does not work\n"+
		"    xdp:::1   lo          4096                      does not work\n"+
		"\nxdp:lo, xdp:::1:\n    no\n", out.String())
}

// The layout is that of ibv_devinfo, so that scripts which read it go on working.
func TestDevinfoIsThatOfTheVerbs(t *testing.T) {
	i := devinfo{Name: "udp:eth0", GIDs: []string{"::ffff:10.0.0.1"},
		Device: roce.DeviceAttr{FWVer: "goroce", NodeGUID: 0x505400fffe123456, SysImageGUID: 0x505400fffe123456, VendorID: 0xffffff,
			PhysPortCnt: 1, MaxMRSize: 1 << 40, DeviceCaps: roce.CapMemWindow | roce.CapRCRNRNakGen, MaxQP: 1048560},
		Port: roce.PortAttr{State: roce.PortActive, MaxMTU: roce.MTU4096, ActiveMTU: roce.MTU1024, PhysState: roce.PhysLinkUp,
			ActiveWidth: 1, ActiveSpeed: 32, GIDTblLen: 1, MaxMsgSz: 1 << 31}}
	var out bytes.Buffer
	i.print(&out, false)
	require.Equal(t, "hca_id:\tudp:eth0\n"+
		"\ttransport:\t\t\tInfiniBand (0)\n"+
		"\tfw_ver:\t\t\t\tgoroce\n"+
		"\tnode_guid:\t\t\t5054:00ff:fe12:3456\n"+
		"\tsys_image_guid:\t\t\t5054:00ff:fe12:3456\n"+
		"\tvendor_id:\t\t\t0xffffff\n"+
		"\tvendor_part_id:\t\t\t0\n"+
		"\thw_ver:\t\t\t\t0x0\n"+
		"\tphys_port_cnt:\t\t\t1\n"+
		"\t\tport:\t1\n"+
		"\t\t\tstate:\t\t\tPORT_ACTIVE (4)\n"+
		"\t\t\tmax_mtu:\t\t4096 (5)\n"+
		"\t\t\tactive_mtu:\t\t1024 (3)\n"+
		"\t\t\tsm_lid:\t\t\t0\n"+
		"\t\t\tport_lid:\t\t0\n"+
		"\t\t\tport_lmc:\t\t0x00\n"+
		"\t\t\tlink_layer:\t\tEthernet\n\n", out.String())
	out.Reset()
	i.print(&out, true)
	for _, line := range []string{
		"\tmax_mr_size:\t\t\t0x10000000000\n",
		"\tdevice_cap_flags:\t\t0x00021000\n\t\t\t\t\tRC_RNR_NAK_GEN\n\t\t\t\t\tMEM_WINDOW\n\tmax_sge:",
		"\tmax_qp_init_rd_atom:\t\t0\n",
		"\t\t\tmax_msg_sz:\t\t0x80000000\n",
		"\t\t\tport_cap_flags2:\t0x0000\n",
		"\t\t\tactive_speed:\t\t25.0 Gbps (32)\n",
		"\t\t\tphys_state:\t\tLINK_UP (5)\n",
		"\t\t\tGID[  0]:\t\t::ffff:10.0.0.1, RoCE v2\n",
	} {
		require.Contains(t, out.String(), line)
	}
}

// TestHelpIsText: no text of a command has what belongs to the code around it.
func TestHelpIsText(t *testing.T) {
	var look func(c *cobra.Command)
	look = func(c *cobra.Command) {
		for _, of := range []string{c.Short, c.Long, c.Example} {
			require.NotContains(t, of, "\t", c.CommandPath())
			require.NotContains(t, of, `" +`, c.CommandPath())
		}
		for _, sub := range c.Commands() {
			look(sub)
		}
	}
	look(newRoot())
}
