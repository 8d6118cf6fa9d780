package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/goroce/goroce/roce"
	"github.com/goroce/goroce/transport"
)

func devinfoCommand() *cobra.Command {
	var dev string
	var verbose, asJSON bool
	c := &cobra.Command{
		Use:   "devinfo [--dev NAME]",
		Short: "Print the attributes of devices, as ibv_devinfo does",
		Example: `  roce devinfo
  roce devinfo -v --dev udp:eth0
  roce devinfo --json`,
		Args: operands(0, 0),
		RunE: func(c *cobra.Command, _ []string) error {
			infos, err := describeDevices(dev)
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(c.OutOrStdout(), infos)
			}
			for _, i := range infos {
				i.print(c.OutOrStdout(), verbose)
			}
			return nil
		},
	}
	c.Flags().StringVarP(&dev, "dev", "d", "",
		"only the device of this `name` (default the UDP devices that work, and those of the kernel)")
	c.Flags().BoolVarP(&verbose, "verbose", "v", false, "print all attributes")
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

// devinfo is a device's attributes as verbs have them.
type devinfo struct {
	Name   string          `json:"hca_id"`
	Device roce.DeviceAttr `json:"device"`
	Port   roce.PortAttr   `json:"port"`
	GIDs   []string        `json:"gids"`
	Packet packetPort      `json:"packet_port"`
}

// packetPort is what packets come and go by: verbs have no attributes for that.
type packetPort struct {
	Kind       string   `json:"kind"`
	Why        string   `json:"why,omitempty"`  // of auto
	Mode       string   `json:"mode,omitempty"` // of xdp
	MaxRun     int      `json:"max_run"`
	ICRC       string   `json:"icrc_check"`
	RecvBuffer int      `json:"recv_buffer"`
	Without    []string `json:"without,omitempty"`
}

func packetPortOf(i transport.Info) packetPort {
	p := packetPort{
		Kind:       i.Kind,
		Why:        i.Why,
		Mode:       i.Mode,
		MaxRun:     i.MaxRun,
		ICRC:       i.ICRC.String(),
		RecvBuffer: i.RecvBuffer,
	}
	for _, d := range i.Degraded {
		p.Without = append(p.Without, strings.TrimPrefix(d.String(), "without "))
	}
	return p
}

// describeDevices asks the named device, or those of the kernel and one for each interface, or
// where that does not work for each of its addresses: UDP sockets, which leave no trace. Other
// ports have the same attributes.
func describeDevices(name string) ([]devinfo, error) {
	if name != "" {
		i, err := describe(name)
		return []devinfo{i}, err
	}
	all, err := roce.Devices()
	if err != nil {
		return nil, err
	}
	infos, described := []devinfo{}, map[string]bool{} // interfaces with all their addresses
	for _, d := range all {
		if d.Err != nil || !harmless(d.Name) || described[d.Interface] && !ofKernel(d.Name) {
			continue
		}
		if i, err := describe(d.Name); err == nil {
			infos = append(infos, i)
			described[d.Interface] = d.Name == "udp:"+d.Interface
		}
	}
	if len(infos) == 0 {
		return nil, fmt.Errorf("none of %d devices can be opened: \"roce devices\" says why", len(all))
	}
	return infos, nil
}

func describe(name string) (devinfo, error) {
	d, err := roce.Open(name, &roce.Config{NoBackground: true})
	if err != nil {
		return devinfo{}, err
	}
	defer d.Close()
	i := devinfo{Name: d.Name(), Device: d.Query(), Port: d.QueryPort(), Packet: packetPortOf(d.PortInfo())}
	for _, g := range d.GIDs() {
		i.GIDs = append(i.GIDs, g.String())
	}
	return i, nil
}

// attribute is one line, with no value the heading of the next ones, or with no name a further
// value of the one before: ibv_devinfo aligns its values by tabs, at columns that differ between
// device and port.
type attribute struct {
	name  string
	value string
}

func attr(name, format string, a ...any) attribute { return attribute{name, fmt.Sprintf(format, a...)} }

// print prints what ibv_devinfo prints for such a device; what RoCE does not have is the 0 that it
// is there.
func (i *devinfo) print(w io.Writer, verbose bool) {
	fmt.Fprintf(w, "hca_id:\t%s\n", i.Name)
	i.lines(w, 1, 40, i.identity())
	if verbose {
		i.lines(w, 1, 40, i.limits())
	}
	fmt.Fprint(w, "\t\tport:\t1\n")
	i.lines(w, 3, 48, i.port())
	if verbose {
		i.lines(w, 3, 48, i.portDetails())
		i.lines(w, 3, 48, i.Packet.attributes())
	}
	fmt.Fprintln(w)
}

// lines prints attributes behind some tabs, their values at a column that tabs of 8 lead to.
func (i *devinfo) lines(w io.Writer, tabs, column int, attrs []attribute) {
	for _, a := range attrs {
		name := strings.Repeat("\t", tabs)
		at := 8 * tabs
		if a.name != "" {
			name += a.name + ":"
			at += len(a.name) + 1
		}
		if a.value != "" {
			name += strings.Repeat("\t", max((column-at+7)/8, 1))
		}
		fmt.Fprintf(w, "%s%s\n", name, a.value)
	}
}

func (i *devinfo) identity() []attribute {
	d := &i.Device
	return []attribute{
		attr("transport", "InfiniBand (0)"), attr("fw_ver", "%s", d.FWVer),
		attr("node_guid", "%s", guid(d.NodeGUID)), attr("sys_image_guid", "%s", guid(d.SysImageGUID)),
		attr("vendor_id", "0x%04x", d.VendorID), attr("vendor_part_id", "%d", d.VendorPartID),
		attr("hw_ver", "0x%X", d.HWVer), attr("phys_port_cnt", "%d", d.PhysPortCnt),
	}
}

func (i *devinfo) limits() []attribute {
	d := &i.Device
	list := []attribute{
		attr("max_mr_size", "0x%x", d.MaxMRSize), attr("page_size_cap", "0x%x", d.PageSizeCap),
		attr("max_qp", "%d", d.MaxQP), attr("max_qp_wr", "%d", d.MaxQPWR),
		attr("device_cap_flags", "0x%08x", uint64(d.DeviceCaps)),
	}
	for _, c := range deviceCaps {
		if d.DeviceCaps&c.bit != 0 {
			list = append(list, attribute{"", c.name})
		}
	}
	list = append(list,
		attr("max_sge", "%d", d.MaxSGE), attr("max_sge_rd", "%d", d.MaxSGERd), attr("max_cq", "%d", d.MaxCQ),
		attr("max_cqe", "%d", d.MaxCQE), attr("max_mr", "%d", d.MaxMR), attr("max_pd", "%d", d.MaxPD),
		attr("max_qp_rd_atom", "%d", d.MaxQPRdAtom), attr("max_ee_rd_atom", "0"),
		attr("max_res_rd_atom", "%d", d.MaxResRdAtom), attr("max_qp_init_rd_atom", "%d", d.MaxQPInitRdAtom),
		attr("max_ee_init_rd_atom", "0"), attr("atomic_cap", "%v (%[1]d)", d.AtomicCap), attr("max_ee", "0"),
		attr("max_rdd", "0"), attr("max_mw", "%d", d.MaxMW), attr("max_raw_ipv6_qp", "0"), attr("max_raw_ethy_qp", "0"),
		attr("max_mcast_grp", "%d", d.MaxMcastGrp), attr("max_mcast_qp_attach", "%d", d.MaxMcastQPAttach),
		attr("max_total_mcast_qp_attach", "%d", d.MaxTotalMcastQPAttach), attr("max_ah", "%d", d.MaxAH),
		attr("max_fmr", "0"), attr("max_srq", "%d", d.MaxSRQ), attr("max_srq_wr", "%d", d.MaxSRQWR),
		attr("max_srq_sge", "%d", d.MaxSRQSGE), attr("max_pkeys", "%d", d.MaxPKeys),
		attr("local_ca_ack_delay", "%d", d.LocalCAAckDelay), attr("max_inline_data", "%d", d.MaxInline))
	requests := []string{"SUPPORT_SEND", "SUPPORT_RECV", "SUPPORT_WRITE", "SUPPORT_READ", "SUPPORT_ATOMIC",
		"SUPPORT_SRQ"}
	list = append(list, odp("general_odp_caps", uint32(d.ODP.General), "ODP_SUPPORT", "ODP_SUPPORT_IMPLICIT")...)
	for _, t := range []struct {
		name string
		caps roce.ODPTransportCaps
	}{{"rc", d.ODP.RC}, {"uc", d.ODP.UC}, {"ud", d.ODP.UD}, {"xrc", d.ODP.XRC}} {
		list = append(list, odp(t.name+"_odp_caps", uint32(t.caps), requests...)...)
	}
	return append(list,
		attr("completion_timestamp_mask", "0x%016x", d.CompletionTimestampMask),
		attr("hca_core_clock", "%dkHZ", d.HCACoreClock), attr("qp_rate_limit_min", "%dkbps", d.RateLimitMin),
		attr("qp_rate_limit_max", "%dkbps", d.RateLimitMax), attr("max_cq_count", "%d", d.MaxCQCount),
		attr("max_cq_period", "%d us", d.MaxCQPeriod),
	)
}

// odp names the bits of what on-demand paging can do, from the lowest on.
func odp(name string, caps uint32, bits ...string) []attribute {
	list := []attribute{{name, ""}}
	for i, bit := range bits {
		if caps>>i&1 != 0 {
			list = append(list, attribute{"", bit})
		}
	}
	if len(list) == 1 {
		list = append(list, attribute{"", "NO SUPPORT"})
	}
	return list
}

// deviceCaps are the abilities by the names that ibv_devinfo prints under device_cap_flags.
var deviceCaps = []struct {
	bit  roce.DeviceCaps
	name string
}{
	{roce.CapCurrQPStateMod, "CURR_QP_STATE_MOD"},
	{roce.CapPortActiveEvent, "PORT_ACTIVE_EVENT"},
	{roce.CapRCRNRNakGen, "RC_RNR_NAK_GEN"},
	{roce.CapSRQResize, "SRQ_RESIZE"},
	{roce.CapMemWindow, "MEM_WINDOW"},
	{roce.CapXRC, "XRC"},
	{roce.CapMemWindow2B, "MEM_WINDOW_TYPE_2B"},
	{roce.CapFlushGlobal, "FLUSH_GLOBAL"},
	{roce.CapFlushPersistent, "FLUSH_PERSISTENT"},
	{roce.CapAtomicWrite, "ATOMIC_WRITE"},
}

func (i *devinfo) port() []attribute {
	p := &i.Port
	return []attribute{
		attr("state", "%v (%d)", p.State, p.State), attr("max_mtu", "%v (%d)", p.MaxMTU, p.MaxMTU),
		attr("active_mtu", "%v (%d)", p.ActiveMTU, p.ActiveMTU), attr("sm_lid", "0"), attr("port_lid", "0"),
		attr("port_lmc", "0x00"), attr("link_layer", "Ethernet"),
	}
}

func (i *devinfo) portDetails() []attribute {
	p := &i.Port
	list := []attribute{
		attr("max_msg_sz", "0x%x", p.MaxMsgSz), attr("port_cap_flags", "0x%08x", p.PortCaps),
		attr("port_cap_flags2", "0x0000"), attr("bad_pkey_cntr", "0x%x", p.BadPKeyCntr),
		attr("qkey_viol_cntr", "0x%x", p.QKeyViolCntr), attr("sm_sl", "0"), attr("pkey_tbl_len", "%d", p.PKeyTblLen),
		attr("gid_tbl_len", "%d", p.GIDTblLen), attr("subnet_timeout", "0"), attr("init_type_reply", "0"),
		attr("active_width", "%dX (%d)", map[uint8]int{1: 1, 2: 4, 4: 8, 8: 12, 16: 2}[p.ActiveWidth], p.ActiveWidth),
		attr("active_speed", "%s (%d)", speeds[p.ActiveSpeed], p.ActiveSpeed),
		attr("phys_state", "%s (%d)", physStates[p.PhysState], p.PhysState),
	}
	for n, g := range i.GIDs {
		if g == "::" { // an empty row
			continue
		}
		list = append(list, attr(fmt.Sprintf("GID[%3d]", n), "%s, RoCE v2", g))
	}
	return list
}

// attributes follow those of ibv_devinfo: the kind of packet port, how it works, and what it does
// without.
func (p *packetPort) attributes() []attribute {
	kind := p.Kind
	if p.Mode != "" {
		kind += " (" + p.Mode + ")"
	}
	list := []attribute{attr("packet_port", "%s", kind)}
	if p.Why != "" {
		list = append(list, attr("chosen", "%s", p.Why))
	}
	if ofKernel(p.Kind + ":") {
		return list // it does the rest itself
	}
	list = append(list, attr("max_run", "%d packets", p.MaxRun), attr("icrc_check", "%s", p.ICRC),
		attr("recv_buffer", "%d bytes", p.RecvBuffer))
	for _, w := range p.Without {
		list = append(list, attr("without", "%s", w))
	}
	return list
}

var (
	speeds = map[uint8]string{
		1:   "2.5 Gbps",
		2:   "5.0 Gbps",
		4:   "10.0 Gbps",
		8:   "10.0 Gbps",
		16:  "14.0 Gbps",
		32:  "25.0 Gbps",
		64:  "50.0 Gbps",
		128: "100.0 Gbps",
	}
	physStates = map[uint8]string{roce.PhysDisabled: "DISABLED", roce.PhysLinkUp: "LINK_UP"}
)

// guid prints a GUID in four groups.
func guid(g uint64) string {
	return fmt.Sprintf("%04x:%04x:%04x:%04x", g>>48, g>>32&0xffff, g>>16&0xffff, g&0xffff)
}
