package quiz

import (
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Each task of the sheet is computed, not typed: by a kind of the quiz, whose second computation it
// passes, or by a sum that its explanation shows. Where the sheet has something else it is said
// why.
func TestSheet(t *testing.T) {
	seen := map[string]bool{}
	for _, task := range Sheet() {
		require.False(t, seen[task.Name], task.Name)
		seen[task.Name] = true
		if task.Kind != "" {
			require.NotNil(t, Find(task.Kind), task.Name)
			require.InEpsilon(t, 1+again[task.Kind](task.Given), 1+task.Answer, 1e-9, task.Name)
		}
		number := Number(task.Answer)
		if task.Kind == "" {
			require.Contains(t, task.Why, number, task.Name)
		}
		right, err := task.Check(number)
		require.NoError(t, err)
		require.True(t, right, task.Name)
		require.NotContains(t, task.Text+task.Why+task.Remark, "%!", task.Name)
		require.True(t, strings.HasSuffix(task.Why, "."), task.Name)
		if task.Sheet != 0 && math.Abs(task.Sheet-task.Answer) > 0.02*task.Answer {
			require.NotEmpty(t, task.Remark, "%s: the sheet has %v, we %v", task.Name, task.Sheet, task.Answer)
		}
	}
	for _, part := range "ABCDRSTQ" {
		require.True(t, seen[string(part)+"1"], string(part))
	}
}

// The sheet's own numbers, which teachers know.
func TestSheetsNumbers(t *testing.T) {
	for _, task := range Sheet() {
		if want, ok := map[string]float64{"A1": 262144, "A2": 2097152, "A3": 536870912, "A4": 33554432, "B1": 8192, "B2": 4096,
			"B3": 12288, "B4": 6144, "B5": 8192 + 4096 + 8192, "B6": 8192 + 1024 + 16384, "C1": 0x7f0000000000, "C3": 0x1234,
			"C4": 0x5678, "C5": 0x7f0010000000, "D1": 100, "D2": 6, "D4": 15, "R1": 524288, "R2": 512, "R3": 2}[task.Name]; ok {
			require.Equal(t, want, task.Answer, task.Name)
		}
	}
}
