package diff

import "bytes"

// pair is one row of an alignment: the positions of two elements, -1 on the
// side that has none.
type pair struct{ a, b int }

// align matches the elements of two arrays. Equal elements are matched by a
// longest common subsequence and left out of the result; between two matches,
// those most alike are paired, and the rest was dropped or added.
func (w *walk) align(as, bs []int) []pair {
	idsA, idsB := w.ids(as, bs)
	var out []pair
	from := pair{}
	for _, m := range append(common(idsA, idsB), pair{len(as), len(bs)}) {
		out = append(out, w.gap(as, bs, from, m)...)
		from = pair{m.a + 1, m.b + 1}
	}
	return out
}

// ids numbers the elements so that equal ones have equal numbers.
func (w *walk) ids(as, bs []int) (idsA, idsB []int) {
	seen := make(map[string]int, len(as))
	number := func(raw []byte) int {
		if id, found := seen[string(raw)]; found {
			return id
		}
		id := len(seen)
		seen[string(raw)] = id
		return id
	}
	idsA, idsB = make([]int, len(as)), make([]int, len(bs))
	for k, n := range as {
		idsA[k] = number(w.a.raw(n))
	}
	for k, n := range bs {
		idsB[k] = number(w.b.raw(n))
	}
	return idsA, idsB
}

// maxGap bounds the table for pairing what lies between two matches. A larger
// gap is paired by position.
const maxGap = 4096

// gap pairs the elements from from up to to.
func (w *walk) gap(as, bs []int, from, to pair) []pair {
	n, m := to.a-from.a, to.b-from.b
	if n*m <= 1 || n*m > maxGap {
		return byPosition(from, to)
	}
	best := w.gains(as[from.a:to.a], bs[from.b:to.b])
	var out []pair
	x, y := 0, 0
	for x < n || y < m {
		switch here := best[x*(m+1)+y]; {
		case y == m || x < n && here == best[(x+1)*(m+1)+y]:
			out = append(out, pair{from.a + x, -1})
			x++
		case x == n || here == best[x*(m+1)+y+1]:
			out = append(out, pair{-1, from.b + y})
			y++
		default:
			out = append(out, pair{from.a + x, from.b + y})
			x, y = x+1, y+1
		}
	}
	return out
}

// gains fills a table of the most that pairing the elements from (x, y) on can
// gain.
func (w *walk) gains(as, bs []int) []int {
	n, m := len(as), len(bs)
	best := make([]int, (n+1)*(m+1))
	for x := n - 1; x >= 0; x-- {
		for y := m - 1; y >= 0; y-- {
			best[x*(m+1)+y] = max(
				best[(x+1)*(m+1)+y],
				best[x*(m+1)+y+1],
				best[(x+1)*(m+1)+y+1]+w.likeness(as[x], bs[y]),
			)
		}
	}
	return best
}

// likeness is what it gains to call one element a change of the other, rather
// than dropped and added: a little in any case, more the more members two
// objects share.
func (w *walk) likeness(i, j int) int {
	x, y := w.a.raw(i), w.b.raw(j)
	switch {
	case x[0] != y[0]:
		return 1
	case x[0] == '{':
		shared, equal, all := w.overlap(i, j)
		return 2 + (shared+8*equal)*4/max(all, 1)
	case x[0] == '"' && (bytes.HasPrefix(x, y[:len(y)-1]) || bytes.HasPrefix(y, x[:len(x)-1])):
		return 4
	}
	return 2
}

func byPosition(from, to pair) []pair {
	var out []pair
	for from.a < to.a || from.b < to.b {
		p := pair{-1, -1}
		if from.a < to.a {
			p.a = from.a
			from.a++
		}
		if from.b < to.b {
			p.b = from.b
			from.b++
		}
		out = append(out, p)
	}
	return out
}
