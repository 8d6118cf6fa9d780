package dropin

// Profiles of roce run: what a program is told by libibverbs and by sysfs is what the file says.
//
// Stages: the files; how ibv_devinfo -v and sysfs print what is in them; each file, device by
// device; what is refused.

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/internal/nobody"
)

// look is a device of a profile's file, as docs/dropin.md has it.
type look struct {
	Name, State string
	Count       int
	GIDs        []struct{ GID, Type string }
	FWVer       string `json:"fw_ver"`
	BoardID     string `json:"board_id"`
	Attributes  map[string]uint64
	Refuse      map[string]struct{ Errno string }
}

// rows are the GIDs of the loopback's own rows, by where a profile takes them from.
var rows = map[string][]string{
	"own": {"::ffff:127.0.0.1", "::1"}, "ipv4": {"::ffff:127.0.0.1"}, "ipv6": {"::1"}, "zero": {""},
	"link-local": {"fe80::ffff:7f00:1"}, "2001:db8::7": {"2001:db8::7"}, "10.1.2.3": {"::ffff:10.1.2.3"},
}

// long are the same as ibv_devinfo writes rows of RoCE v1, and sysfs all.
var long = map[string]string{
	"::ffff:127.0.0.1": "0000:0000:0000:0000:0000:ffff:7f00:0001", "::1": "0000:0000:0000:0000:0000:0000:0000:0001",
	"fe80::ffff:7f00:1": "fe80:0000:0000:0000:0000:ffff:7f00:0001", "2001:db8::7": "2001:0db8:0000:0000:0000:0000:0000:0007",
	"::ffff:10.1.2.3": "0000:0000:0000:0000:0000:ffff:0a01:0203", "": "0000:0000:0000:0000:0000:0000:0000:0000",
}

// printed is how ibv_devinfo -v prints an attribute that is no plain number.
var printed = map[string]string{
	"vendor_id": "0x%04x", "hw_ver": "0x%X", "max_mr_size": "0x%x", "page_size_cap": "0x%x", "device_cap_flags": "0x%08x",
	"hca_core_clock": "%dkHZ", "atomic_cap": `ATOMIC_HCA \(%d\)`, "max_msg_sz": "0x%x", "port_cap_flags": "0x%08x",
	"bad_pkey_cntr": "0x%x", "max_mtu": `2048 \(%d\)`, "active_mtu": `512 \(%d\)`, "phys_state": `POLLING \(%d\)`,
	"active_width": `\dX \(%d\)`, "active_speed": `[\d.]+ Gbps \(%d\)`,
}

// states are how a port's state is printed by ibv_devinfo, and in sysfs.
var states = map[string][2]string{
	"": {"PORT_ACTIVE (4)", "4: ACTIVE"}, "DOWN": {"PORT_DOWN (1)", "1: DOWN"}, "ARMED": {"PORT_ARMED (3)", "3: ARMED"},
}

func TestProfiles(t *testing.T) {
	files, err := filepath.Glob("../cmd/roce/internal/launch/profiles/*.json")
	require.NoError(t, err)
	require.Greater(t, len(files), 8)
	for _, file := range append(files, "testdata/every.json") {
		name := strings.TrimSuffix(filepath.Base(file), ".json")
		t.Run(name, func(t *testing.T) {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			var profile struct{ Devices []look }
			require.NoError(t, json.Unmarshal(text, &profile))
			if strings.HasPrefix(file, "testdata") {
				file = readable(t, file)
			} else {
				file = name // it is built in
			}
			devices, sysfs := looked(t, file)
			number := 0
			for _, l := range profile.Devices {
				for n := range max(l.Count, 1) {
					require.Greater(t, len(devices), number)
					seen(t, devices[number], sysfs, strings.Replace(l.Name, "%d", fmt.Sprint(n), 1), l, number == 0)
					number++
				}
			}
			require.Len(t, devices, number)
		})
	}
}

// readable is a copy of a file that whoever runs the programs can read, wherever this folder is.
func readable(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	file = filepath.Join(nobody.Folder(t), filepath.Base(file))
	require.NoError(t, os.WriteFile(file, text, 0o644))
	return file
}

// looked is what ibv_devinfo says of each device with a profile, and what is in sysfs.
func looked(t *testing.T, profile string) (devices []string, sysfs string) {
	t.Helper()
	needs(t, "ibv_devinfo")
	script := filepath.Join(nobody.Folder(t), "look")
	require.NoError(t, os.WriteFile(script, []byte("ibv_devinfo -v && grep -r . /sys/class/infiniband/"), 0o644))
	out, err := byRun(t, "-q --profile "+profile, "sh "+script).CombinedOutput()
	require.NoError(t, err, "%s", out)
	said, sysfs, _ := strings.Cut(string(out), "\n/sys/")
	return strings.Split(said, "hca_id:\t")[1:], "\n/sys/" + sysfs
}

// seen holds what is printed of a device against the file. first: it is on the loopback's own row.
func seen(t *testing.T, said, sysfs, name string, l look, first bool) {
	t.Helper()
	require.True(t, strings.HasPrefix(said, name+"\n"), "%s: %s", name, said)
	require.Contains(t, said, states[l.State][0])
	if l.FWVer != "" {
		require.Regexp(t, `fw_ver:\t+`+l.FWVer+`\n`, said)
		require.Regexp(t, `board_id:\t+`+l.BoardID+`\n`, said) // read from sysfs
	}
	for attribute, n := range l.Attributes {
		format := printed[attribute]
		if format == "" {
			format = "%d"
		}
		require.Regexp(t, `\t`+attribute+`:\t+`+fmt.Sprintf(format, n)+`\n`, said)
	}
	port := "/sys/class/infiniband/" + name + "/ports/1/"
	require.Contains(t, sysfs, port+"state:"+states[l.State][1]+"\n")
	index := 0
	for _, row := range l.GIDs {
		for _, gid := range rows[row.GID] {
			if !first && long[gid] != "" && row.GID != "zero" && !strings.Contains(row.GID, ".") && !strings.Contains(row.GID, ":") {
				index++ // another address
				continue
			}
			require.Contains(t, sysfs, fmt.Sprintf("%sgids/%d:%s\n", port, index, long[gid]))
			line := fmt.Sprintf("GID[%3d]:\t\t%s, %s\n", index, gid, row.Type)
			if row.Type == "RoCE v1" {
				line = strings.Replace(line, gid, long[gid], 1)
			}
			kind := fmt.Sprintf("%sgid_attrs/types/%d:", port, index)
			if gid == "" { // an empty row is left out
				require.NotContains(t, said, fmt.Sprintf("GID[%3d]", index))
				require.NotContains(t, sysfs, kind)
			} else {
				require.Contains(t, said, line)
				require.Regexp(t, kind+`(IB/)?`+row.Type+`\n`, sysfs)
			}
			index++
		}
	}
	if len(l.GIDs) > 0 {
		require.Regexp(t, fmt.Sprintf(`gid_tbl_len:\t+%d\n`, index), said)
	}
}

// TestRefusals: what a profile refuses fails with its errno, and rows that cannot be used say so.
func TestRefusals(t *testing.T) {
	program := student(t)
	for _, c := range []struct{ profile, says string }{
		{"refusing", `mlx5_0: create_qp is refused(.|\n)*a && b: Cannot allocate memory`},
		{"rocev1", `row 0 of the GID table(.|\n)*connect_to.*: Protocol not supported`},
		{"zero", `row 0 of the GID table(.|\n)*connect_to`},
		{readable(t, "testdata/every.json"), `a && b: Permission denied`},
	} {
		out, err := byRun(t, "-q --profile "+c.profile, program).CombinedOutput()
		require.Error(t, err, "%s", out)
		require.Regexp(t, c.says, string(out), c.profile)
	}
	out, err := byRun(t, "-q --profile mapped", program).CombinedOutput()
	require.NoError(t, err, "%s", out)
}
