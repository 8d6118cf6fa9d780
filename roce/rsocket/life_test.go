package rsocket

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestLives walks the table of lives: nothing is taken back, and all is given back once, when
// nobody is inside a connection that was closed.
func TestLives(t *testing.T) {
	for l := range lives {
		for what := range passages {
			next := l
			next.on(what)
			require.False(t, l.closed() && !next.closed(), "%d, %d: it opens again", l, what)
			require.False(t, l.gone() && !next.gone() && next != freed, "%d, %d: it comes back below", l, what)
			require.Equal(t, l == freed || what == empties && l.closed(), next == freed, "%d, %d", l, what)
			require.Equal(t, l.closed() || what == closes, next.closed(), "%d, %d", l, what)
			if next != freed {
				require.Equal(t, l.gone() || what == goesBelow, next.gone(), "%d, %d", l, what)
			}
		}
	}
}
