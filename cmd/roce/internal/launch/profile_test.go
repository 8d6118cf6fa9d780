//go:build linux

package launch

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/roce"
)

// TestBuiltIn: the profiles that are built in can be read, and say what they are.
func TestBuiltIn(t *testing.T) {
	require.Greater(t, len(Names()), 8)
	for _, name := range Names() {
		p, err := ReadProfile(name)
		require.NoError(t, err)
		require.NotEmpty(t, p.About, name)
		require.Contains(t, BuiltIn(), p.About)
	}
	p, err := ReadProfile("many")
	require.NoError(t, err)
	require.Equal(t, "mlx5_17", p.Devices[0].name(17))
	require.Equal(t, 18, p.Devices[0].Count)
}

// TestEvery: the profile with which the libraries for C are tested has all that there is.
func TestEvery(t *testing.T) {
	p, err := ReadProfile("../../../../dropin/testdata/every.json")
	require.NoError(t, err)
	require.Equal(t, attributes, slices.Sorted(maps.Keys(p.Devices[0].Attributes)))
	require.ElementsMatch(t, refusable, slices.Collect(maps.Keys(p.Devices[0].Refuse)))
}

// TestProfileErrors: what is wrong with a file is said.
func TestProfileErrors(t *testing.T) {
	file := filepath.Join(t.TempDir(), "profile")
	for _, c := range []struct{ text, says string }{
		{`{"devices": [{"name": "a", "colour": 1}]}`, `unknown field "colour"`},
		{`{"devices": [{"name": "../a"}]}`, `name "../a": want small letters`},
		{`{"devices": [{"name": "a", "count": 2}]}`, `another for each device`},
		{`{"devices": [{"name": "a%d", "count": 65}]}`, `more than 64 devices`},
		{`{"devices": [{"name": "a", "fw_ver": "1\n2"}]}`, `want at most 63 characters`},
		{`{"devices": [{"name": "a", "state": "UP"}]}`, `state "UP": want one of`},
		{`{"devices": [{"name": "a", "gids": [{"gid": "mine"}]}]}`, `gid "mine": want an IP address or one of`},
		{`{"devices": [{"name": "a", "gids": [{"gid": "own", "type": "v2"}]}]}`, `want "RoCE v1" or "RoCE v2"`},
		{`{"devices": [{"name": "a", "attributes": {"max_qps": 1}}]}`, `attribute "max_qps": want one of`},
		{`{"devices": [{"name": "a", "attributes": {"max_qp": -1}}]}`, `cannot unmarshal number -1`},
		{`{"devices": [{"name": "a", "refuse": {"poll_cq": {"errno": "EIO"}}}]}`, `refuse "poll_cq": want one of`},
		{`{"devices": [{"name": "a", "refuse": {"create_qp": {"errno": "ENONE"}}}]}`, `errno "ENONE" after 0`},
		{`{"devices": [{"name": "a", "attributes": {"max_qp": 2147483648}}]}`, `max_qp is 2147483648: want at most 2147483647`},
		{`{"devices": [{"name": "a", "attributes": {"active_speed": 256}}]}`, `want at most 255`},
		{`{"devices": []}`, `devices: want one at least`},
		{`{"devices": [{"name": "a", "count": -1}]}`, `count is -1: want 1 or more`},
		{`{"devices": [{"name": "a", "fw_ver": " "}]}`, `the first no space`},
		{`{"devices": [{"name": "a", "gids": []}]}`, `gids: want a row`},
		{`{"devices": [{"name": "a"}]} {"devices": [{"name": "b"}]}`, `more behind the first value`},
		{`{`, `unexpected EOF`},
	} {
		require.NoError(t, os.WriteFile(file, []byte(c.text), 0o600))
		_, err := ReadProfile(file)
		require.ErrorContains(t, err, c.says, c.text)
	}
	_, err := ReadProfile("nosuch")
	require.ErrorContains(t, err, "none of that name is built in: connectx, ")
}

// TestRows: each source of GIDs finds those that it should among a device's own.
func TestRows(t *testing.T) {
	gid := func(s string) roce.GID {
		g, err := roce.ParseGID(s)
		require.NoError(t, err)
		return g
	}
	on := &opened{attr: roce.DeviceAttr{NodeGUID: 0x0011_22ff_fe33_4455}, port: roce.PortAttr{Interface: "eth0"}}
	for _, a := range []string{"10.0.0.1", "fd00::1", "10.0.0.2"} {
		on.rows = append(on.rows, row{gid: gid(a), ndev: "eth0"})
	}
	on.rows = append(on.rows, row{})
	for _, c := range []struct {
		source string
		want   []string
	}{
		{"own", []string{"10.0.0.1", "fd00::1", "10.0.0.2"}}, {"ipv4", []string{"10.0.0.1", "10.0.0.2"}}, {"ipv6", []string{"fd00::1"}},
		{"link-local", []string{"fe80::11:22ff:fe33:4455"}}, {"zero", []string{"::"}}, {"2001:db8::1", []string{"2001:db8::1"}},
	} {
		l := &Look{GIDs: []GIDRow{{c.source, v2}, {c.source, v1}}}
		table, err := l.rows(on)
		require.NoError(t, err)
		require.Len(t, table, 2*len(c.want), c.source)
		for i, r := range table {
			require.Equal(t, c.want[i%len(c.want)], netText(r.gid), c.source)
			require.Equal(t, i >= len(c.want) && c.source != "zero", r.v1)
		}
	}
	on.rows = on.rows[:1]
	_, err := (&Look{GIDs: []GIDRow{{"ipv6", v2}}}).rows(on)
	require.ErrorContains(t, err, `wants addresses "ipv6", of which the device has none`)
}

func netText(g roce.GID) string {
	if g.IsZero() {
		return "::"
	}
	return g.Addr().String()
}
