package config

import "strings"

// Nearest is the candidate that somebody who wrote name has most likely meant, or "" if none is near. Case, and the
// difference between "_" and "-", do not count.
func Nearest(name string, candidates []string) string {
	name = plain(name)
	best, least := "", 1+len(name)/4 // so many letters may be wrong
	for _, c := range candidates {
		d := distance(name, plain(c))
		if d < least || d == least && best == "" {
			best, least = c, d
		}
	}
	return best
}

func plain(name string) string {
	return strings.ToLower(strings.ReplaceAll(strings.TrimLeft(name, "-"), "_", "-"))
}

// distance counts the letters that have to be put in, taken out, replaced, or exchanged with their neighbour, to make b of a.
func distance(a, b string) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
