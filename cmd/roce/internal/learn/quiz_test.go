package learn

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/trace/quiz"
)

// A student answers the first question rightly, the second with nonsense and then wrongly, and
// leaves.
func TestQuiz(t *testing.T) {
	all, err := quiz.Ask(3, 3, nil)
	require.NoError(t, err)
	var out bytes.Buffer
	in := strings.NewReader(quiz.Number(all[0].Answer) + "\nno idea\n-1\n")
	require.NoError(t, Quiz(&out, QuizOptions{Count: 3, Seed: 3, In: in}))
	text := out.String()
	for _, want := range []string{"1 of 3\n", "Right.\n", `"no idea" is no number`, "No, it is " + said(&all[1]),
		"\nIt is " + said(&all[2]), "1 of 2 right.", "--seed 3 --count 3"} {
		require.Contains(t, text, want)
	}
	require.Equal(t, 4, strings.Count(text, "Your answer"))
}

func TestQuizAsJSON(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, Quiz(&out, QuizOptions{Count: 5, Seed: 9, Kind: "packets", JSON: true}))
	var read struct {
		Seed      uint64
		Questions []quiz.Question
	}
	require.NoError(t, json.Unmarshal(out.Bytes(), &read))
	want, err := quiz.Ask(9, 5, quiz.Find("packets"))
	require.NoError(t, err)
	require.Equal(t, want, read.Questions)
	require.EqualValues(t, 9, read.Seed)
}

func TestQuizIsRefused(t *testing.T) {
	require.ErrorContains(t, Quiz(&bytes.Buffer{}, QuizOptions{Count: 1, Kind: "astrology"}), "quiz --list")
	require.ErrorContains(t, Quiz(&bytes.Buffer{}, QuizOptions{Count: 0}), "want 1 to 1000")
	var out bytes.Buffer
	Kinds(&out)
	require.Equal(t, len(quiz.Kinds), strings.Count(out.String(), "\n"))
}

func TestSheet(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, Sheet(&out, false, 80))
	require.Contains(t, out.String(), "A1 A region begins at")
	for line := range strings.Lines(out.String()) {
		require.LessOrEqual(t, len([]rune(line)), 81, line)
	}
	out.Reset()
	require.NoError(t, Sheet(&out, true, 0))
	var tasks []quiz.Task
	require.NoError(t, json.Unmarshal(out.Bytes(), &tasks))
	require.Equal(t, quiz.Sheet(), tasks)
}
