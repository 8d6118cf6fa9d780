package glossary

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestTable: every term has a meaning that ends, and a name of its own.
func TestTable(t *testing.T) {
	seen := map[string]bool{}
	for _, x := range All() {
		require.False(t, seen[strings.ToLower(x.Name)], x.Name)
		seen[strings.ToLower(x.Name)] = true
		require.True(t, strings.HasSuffix(x.Means, "."), x.Name)
		require.Equal(t, x.Name, Find(strings.ToUpper(x.Name)).Name)
		found := In("Say " + x.Name + ".")
		require.Len(t, found, 1, x.Name)
		require.Equal(t, Use{x.Name, 4, 4 + len(x.Name)}, found[0])
	}
	require.Nil(t, Find("nothing of the kind"))
}

// TestIn: the longest term counts, at the beginning of a sentence and in the plural too, and never
// a part of a word.
func TestIn(t *testing.T) {
	names := func(text string) (all []string) {
		for _, u := range In(text) {
			all = append(all, u.Name)
		}
		return all
	}
	require.Equal(t, []string{"completion queue", "completion"}, names("Completion queues hold completions."))
	require.Equal(t, []string{"post", "WRITE"}, names("It has posted two WRITEs"))
	require.Equal(t, []string{"IBV_WC_SUCCESS"}, names("(IBV_WC_SUCCESS)"))
	require.Empty(t, names("RDMA_WRITE_ONLY, to write, a deviceful of posters"))
}
