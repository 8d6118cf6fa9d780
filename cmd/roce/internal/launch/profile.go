//go:build linux

package launch

// Profiles: the devices that a program should meet. docs/dropin.md says what a file may have.
//
// Stages: the records, as they are in JSON; those that are built in; reading one; what is wrong
// with it; the rows of a table of GIDs.

import (
	"bytes"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/goroce/goroce/roce"
)

// Profile is what devices there are. Without any there are roce0, roce1 and so on, as they are.
type Profile struct {
	About   string `json:"about"`
	Devices []Look `json:"devices"`
}

// Look is how a device looks, or Count of them.
type Look struct {
	Name    string   `json:"name"`     // with %d if there are several
	Count   int      `json:"count"`    // 0 is 1
	GIDs    []GIDRow `json:"gids"`     // nil: as they are
	State   string   `json:"state"`    // of the port: a name of states; "": as it is
	FWVer   string   `json:"fw_ver"`   // "": as it is
	HCAType string   `json:"hca_type"` // of sysfs
	BoardID string   `json:"board_id"`
	// numbers of ibv_device_attr_ex and ibv_port_attr, by their names there
	Attributes map[string]uint64 `json:"attributes"`
	Refuse     map[string]Refuse `json:"refuse"` // by the names of refusable
}

// GIDRow is a row of the table, or several.
type GIDRow struct {
	GID  string `json:"gid"`  // a key of addresses, or an address
	Type string `json:"type"` // "RoCE v1" or "RoCE v2"
}

// Refuse is how a call fails.
type Refuse struct {
	Errno string `json:"errno"` // "ENOMEM"
	After int    `json:"after"` // so many succeed first
}

const v1, v2 = "RoCE v1", "RoCE v2"

// states are those of a port, with what phys_state goes with them.
var states = map[string]struct{ state, phys uint64 }{
	"DOWN": {1, 3}, "INIT": {2, 5}, "ARMED": {3, 5}, "ACTIVE": {4, 5}, "ACTIVE_DEFER": {5, 5},
}

// refusable are what can be refused, by the name of the call. The C library has the same list
// (dropin/verbs/profile.c).
var refusable = []string{
	"open_device", "alloc_pd", "reg_mr", "alloc_mw", "create_ah", "create_comp_channel", "create_cq",
	"create_srq", "create_qp", "modify_qp",
}

// attributes are what can be set, the same.
var attributes = []string{
	"active_mtu", "active_speed", "active_width", "atomic_cap", "bad_pkey_cntr", "device_cap_flags",
	"hca_core_clock", "hw_ver", "local_ca_ack_delay", "max_ah", "max_cq", "max_cqe", "max_mcast_grp",
	"max_mcast_qp_attach", "max_mr", "max_mr_size", "max_msg_sz", "max_mtu", "max_mw", "max_pd", "max_pkeys",
	"max_qp", "max_qp_init_rd_atom", "max_qp_rd_atom", "max_qp_wr", "max_res_rd_atom", "max_sge",
	"max_sge_rd", "max_srq", "max_srq_sge", "max_srq_wr", "max_total_mcast_qp_attach", "page_size_cap",
	"phys_state", "port_cap_flags", "vendor_id", "vendor_part_id",
}

// most is what an attribute can be at most, which its member of the structure has room for.
func most(attribute string) uint64 {
	switch attribute {
	case "hca_core_clock", "max_mr_size", "page_size_cap":
		return math.MaxUint64
	case "device_cap_flags", "hw_ver", "max_msg_sz", "port_cap_flags", "bad_pkey_cntr", "vendor_id", "vendor_part_id":
		return math.MaxUint32
	case "max_pkeys":
		return math.MaxUint16
	case "active_speed", "active_width", "local_ca_ack_delay", "phys_state":
		return math.MaxUint8
	}
	return math.MaxInt32
}

//go:embed profiles/*.json
var builtIn embed.FS

// Names are those of the profiles that are built in.
func Names() (names []string) {
	entries, _ := builtIn.ReadDir("profiles")
	for _, e := range entries {
		names = append(names, strings.TrimSuffix(e.Name(), ".json"))
	}
	return names
}

// BuiltIn is a line about each of them.
func BuiltIn() string {
	var b strings.Builder
	for _, name := range Names() {
		if p, err := ReadProfile(name); err == nil {
			fmt.Fprintf(&b, "  %-10s %s\n", name, p.About)
		}
	}
	return b.String()
}

// ReadProfile reads one that is built in, or a file; "" is that of the devices as they are.
func ReadProfile(name string) (*Profile, error) {
	if name == "" {
		return &Profile{}, nil
	}
	text, err := builtIn.ReadFile(path.Join("profiles", name+".json"))
	if err != nil {
		if text, err = os.ReadFile(name); err != nil {
			return nil, fmt.Errorf("--profile: %w, and none of that name is built in: %s", err,
				strings.Join(Names(), ", "))
		}
	}
	p := &Profile{}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(p); err != nil {
		return nil, fmt.Errorf("--profile %s: %w", name, err)
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, fmt.Errorf("--profile %s: there is more behind the first value, at byte %d", name, d.InputOffset())
	}
	if err := p.check(); err != nil {
		return nil, fmt.Errorf("--profile %s: %w", name, err)
	}
	return p, nil
}

// Limits of a profile: a library for C keeps so many devices, and so many rows of each.
const maxDevices, maxRows = 64, 256

var (
	deviceName = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,30}$`)
	plainText  = regexp.MustCompile(`^([!-~][ -~]{0,62})?$`)
)

// check says what is wrong with a profile.
func (p *Profile) check() error {
	names := map[string]bool{}
	if len(p.Devices) == 0 {
		return errors.New(`devices: want one at least, such as {"name": "mlx5_0"}`)
	}
	for i := range p.Devices {
		look := &p.Devices[i]
		if look.Count < 0 {
			return fmt.Errorf("device %q: count is %d: want 1 or more", look.Name, look.Count)
		}
		for n := range max(look.Count, 1) {
			name := look.name(n)
			if !deviceName.MatchString(name) || names[name] {
				return fmt.Errorf("name %q: want small letters, digits, _ and -, at most 31, another for each device; "+
					"of several, %%d is the number", name)
			}
			if names[name] = true; len(names) > maxDevices {
				return fmt.Errorf("more than %d devices", maxDevices)
			}
		}
		if err := look.check(); err != nil {
			return fmt.Errorf("device %q: %w", look.Name, err)
		}
	}
	return nil
}

func (l *Look) check() error {
	for _, text := range []string{l.FWVer, l.HCAType, l.BoardID} {
		if !plainText.MatchString(text) {
			return fmt.Errorf("%q: want at most 63 characters of ASCII, the first no space", text)
		}
	}
	if _, ok := states[l.State]; !ok && l.State != "" {
		return fmt.Errorf("state %q: want one of %q", l.State, slices.Sorted(maps.Keys(states)))
	}
	for _, row := range l.GIDs {
		if _, err := roce.ParseGID(row.GID); err != nil && !slices.Contains(sources, row.GID) {
			return fmt.Errorf("gid %q: want an IP address or one of %q", row.GID, sources)
		}
		if row.Type != "" && row.Type != v1 && row.Type != v2 {
			return fmt.Errorf("type %q: want %q or %q", row.Type, v1, v2)
		}
	}
	if l.GIDs != nil && len(l.GIDs) == 0 {
		return errors.New(`gids: want a row, such as {"gid": "zero"}, which is empty; without gids they are as they are`)
	}
	for name, n := range l.Attributes {
		if !slices.Contains(attributes, name) {
			return fmt.Errorf("attribute %q: want one of %q", name, attributes)
		}
		if n > most(name) {
			return fmt.Errorf("attribute %s is %d: want at most %d", name, n, most(name))
		}
	}
	for name, r := range l.Refuse {
		if !slices.Contains(refusable, name) {
			return fmt.Errorf("refuse %q: want one of %q", name, refusable)
		}
		if r.number() == 0 || r.After < 0 {
			return fmt.Errorf("refuse %s: errno %q after %d: want a name such as ENOMEM, and a number from 0",
				name, r.Errno, r.After)
		}
	}
	return nil
}

// name is that of the n-th device that looks so.
func (l *Look) name(n int) string { return strings.Replace(l.Name, "%d", fmt.Sprint(n), 1) }

// number is the errno; 0: there is none of that name.
func (r Refuse) number() int {
	for n := 1; n < 134; n++ {
		if unix.ErrnoName(syscall.Errno(n)) == r.Errno {
			return n
		}
	}
	return 0
}

// row is one of a table of GIDs.
type row struct {
	gid  roce.GID // zero: it is empty
	v1   bool
	ndev string // the network interface
}

// sources are where the GIDs of a row may come from: the device's addresses; those of IPv4 or of
// IPv6; the link-local one; nowhere, the row is empty.
var sources = []string{"own", "ipv4", "ipv6", "link-local", "zero"}

// rows makes the table of a device that has rows of its own.
func (l *Look) rows(on *opened) (table []row, err error) {
	ndev := on.port.Interface
	for _, r := range l.GIDs {
		found := false
		for _, o := range on.rows {
			if !o.gid.IsZero() && from(r.GID, o.gid) {
				found, table = true, append(table, row{o.gid, r.Type == v1, o.ndev})
			}
		}
		gid, literal := roce.ParseGID(r.GID)
		switch {
		case found:
		case r.GID == "zero":
			table = append(table, row{})
		case r.GID == "link-local": // a NIC has it always, made of its MAC address
			table = append(table, row{linkLocal(on.attr.NodeGUID), r.Type == v1, ndev})
		case literal == nil:
			table = append(table, row{gid, r.Type == v1, ndev})
		default:
			return nil, fmt.Errorf("a row wants addresses %q, of which the device has none", r.GID)
		}
	}
	if len(table) > maxRows {
		err = fmt.Errorf("the table has %d rows, and at most %d can be", len(table), maxRows)
	}
	return table, err
}

// from says whether a row takes a GID of the device's own.
func from(source string, gid roce.GID) bool {
	local := gid[0] == 0xfe && gid[1]&0xc0 == 0x80
	switch source {
	case "own":
		return true
	case "ipv4":
		return gid.Addr().Is4()
	case "ipv6":
		return !gid.Addr().Is4() && !local
	case "link-local":
		return local
	}
	return false
}

// linkLocal is the address that an interface makes of its MAC address.
func linkLocal(guid uint64) (gid roce.GID) {
	gid[0], gid[1] = 0xfe, 0x80
	for i := range 8 {
		gid[8+i] = byte(guid >> (56 - 8*i))
	}
	return gid
}

// attribute is what a device says of itself: the profile's number, or its own.
func (l *Look) attribute(name string, own uint64) uint64 {
	if n, ok := l.Attributes[name]; ok {
		return n
	}
	s, ok := states[l.State]
	switch {
	case ok && name == "state":
		return s.state
	case ok && name == "phys_state":
		return s.phys
	}
	return own
}
