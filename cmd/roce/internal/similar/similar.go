// Package similar finds the word that somebody meant who has mistyped it.
package similar

import (
	"slices"
	"strings"
)

// To returns those of all that a word may stand for: what is one or two slips of the fingers away,
// the nearest only; if nothing is, what has the word in it, or is in it. None twice.
func To(word string, all []string) (names []string) {
	word = strings.ToLower(word)
	nearest := min(2, (len(word)+1)/3) // what is farther away is another word
	for _, name := range all {
		n := slips(word, strings.ToLower(name))
		if n < nearest {
			nearest, names = n, nil
		}
		if n == nearest {
			names = add(names, name)
		}
	}
	if names != nil || len(word) < 3 {
		return names
	}
	for _, name := range all {
		lower := strings.ToLower(name)
		if strings.Contains(lower, word) || len(name) > 2 && strings.Contains(word, lower) {
			names = add(names, name)
		}
	}
	return names
}

func add(names []string, name string) []string {
	if slices.Contains(names, name) {
		return names
	}
	return append(names, name)
}

// slips is how many letters are too many, missing, wrong or exchanged with their neighbours.
func slips(a, b string) int {
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		for j := range rows[i] {
			switch {
			case i == 0 || j == 0:
				rows[i][j] = i + j
				continue
			case a[i-1] == b[j-1]:
				rows[i][j] = rows[i-1][j-1]
			default:
				rows[i][j] = 1 + min(rows[i-1][j-1], rows[i-1][j], rows[i][j-1])
			}
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				rows[i][j] = min(rows[i][j], 1+rows[i-2][j-2])
			}
		}
	}
	return rows[len(a)][len(b)]
}
