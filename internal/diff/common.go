package diff

// maxEdits bounds the search for a longest common subsequence, whose memory
// grows with the square of it. Sequences further apart share what their heads
// and tails share.
const maxEdits = 1500

// common returns a longest common subsequence of two sequences as pairs of
// positions, in order.
func common(a, b []int) []pair {
	head := 0
	for head < min(len(a), len(b)) && a[head] == b[head] {
		head++
	}
	tail := 0
	for tail < min(len(a), len(b))-head && a[len(a)-1-tail] == b[len(b)-1-tail] {
		tail++
	}
	out := make([]pair, 0, head+tail)
	for k := range head {
		out = append(out, pair{k, k})
	}
	out = append(out, middle(a[:len(a)-tail], b[:len(b)-tail], head)...)
	for k := tail; k > 0; k-- {
		out = append(out, pair{len(a) - k, len(b) - k})
	}
	return out
}

// middle finds the subsequence from position head on. What occurs on one side
// alone cannot be part of it and is left out of the search, so that a long
// array of changed elements costs nothing.
func middle(a, b []int, head int) []pair {
	keptA, keptB := kept(a, b, head), kept(b, a, head)
	trace := search(a, b, keptA, keptB)
	out := backtrack(trace, len(keptA), len(keptB))
	for k, p := range out {
		out[k] = pair{keptA[p.a], keptB[p.b]}
	}
	return out
}

// kept returns the positions in s, from head on, of what occurs in other too.
func kept(s, other []int, head int) []int {
	occurs := make(map[int]bool, len(other)-head)
	for _, id := range other[head:] {
		occurs[id] = true
	}
	var out []int
	for k := head; k < len(s); k++ {
		if occurs[s[k]] {
			out = append(out, k)
		}
	}
	return out
}

// search is Myers' greedy search: row d of the trace holds, for every diagonal
// from -d to d, how far into a one gets with d insertions and removals. It is
// nil when more than maxEdits would be needed.
func search(a, b []int, keptA, keptB []int) [][]int32 {
	n, m := len(keptA), len(keptB)
	var trace [][]int32
	for d := 0; d <= min(n+m, maxEdits); d++ {
		row := make([]int32, 2*d+1)
		trace = append(trace, row)
		for k := -d; k <= d; k += 2 {
			x := int(furthest(trace, d, k))
			for x < n && x-k < m && a[keptA[x]] == b[keptB[x-k]] {
				x++
			}
			row[k+d] = int32(x)
			if x >= n && x-k >= m {
				return trace
			}
		}
	}
	return nil
}

// furthest returns where d edits lead on diagonal k before any match is taken:
// a removal from the diagonal below it, or an insertion from the one above.
func furthest(trace [][]int32, d, k int) int32 {
	if d == 0 {
		return 0
	}
	before := trace[d-1]
	if fromAbove(before, d, k) {
		return before[k+1+d-1]
	}
	return before[k-1+d-1] + 1
}

func fromAbove(before []int32, d, k int) bool {
	return k == -d || k != d && before[k-1+d-1] < before[k+1+d-1]
}

// backtrack reads the matches off a trace, from its end.
func backtrack(trace [][]int32, n, m int) []pair {
	var reversed []pair
	x, y := n, m
	for d := len(trace) - 1; d >= 0; d-- {
		k := x - y
		start := int(furthest(trace, d, k))
		for ; x > start; x, y = x-1, y-1 {
			reversed = append(reversed, pair{x - 1, y - 1})
		}
		if d > 0 && fromAbove(trace[d-1], d, k) {
			y--
		} else {
			x--
		}
	}
	for i, j := 0, len(reversed)-1; i < j; i, j = i+1, j-1 {
		reversed[i], reversed[j] = reversed[j], reversed[i]
	}
	return reversed
}
