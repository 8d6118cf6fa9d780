package session

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestEndIsSeen: who is to end hears of it also while every answer comes at once, as with two ends
// that take turns on one processor.
func TestEndIsSeen(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	w := &Waiter{}
	var err error
	for range spins {
		if err = w.Until(ctx, nil, func() bool { return true }, nil); err != nil {
			break
		}
	}
	require.ErrorIs(t, err, context.Canceled)
}
