package tshark

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var write = flag.Bool("write", false, "write the table of docs/tshark.md anew")

const (
	page  = "../../docs/tshark.md"
	begin = "<!-- go test ./internal/tshark -write makes this table -->\n"
	end   = "<!-- the end of the table -->\n"
)

// TestPage: docs/tshark.md has the table that the comparison uses.
func TestPage(t *testing.T) {
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	before, rest, ok := strings.Cut(string(text), begin)
	_, after, closed := strings.Cut(rest, end)
	require.True(t, ok && closed, "%s has no place for the table", page)
	var b strings.Builder
	fmt.Fprintf(&b, "%s%s| field | packets | who is right, and why |\n|---|---|---|\n", before, begin)
	for _, d := range Differences {
		where := d.Where
		if where == "" {
			where = "all"
		}
		fmt.Fprintf(&b, "| %s | %s | %s |\n", d.Field, where, d.Right)
	}
	b.WriteString(end + after)
	if *write {
		require.NoError(t, os.WriteFile(page, []byte(b.String()), 0o644))
		return
	}
	require.Equal(t, b.String(), string(text), "go test ./internal/tshark -write")
}
