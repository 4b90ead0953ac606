package verdict

import (
	"math"
	"strconv"
	"strings"
)

// Figure is a number or time that a verdict states.
type Figure struct {
	Text   string `json:"text"`
	Member string `json:"member"` // where it stands: summary, mechanism, started_at or recommendation
}

// Unsupported lists the numbers and times of a verdict that occur in none of
// the sources: the texts of the results it cites, and of the question. A number
// is supported if a source holds one that is equal or rounds to it; a time, if
// a source holds its text or, for a time of day, a time that begins with it.
// It is a check by code that a reader can repeat; it knows nothing of meaning.
func (v Verdict) Unsupported(sources []string) []Figure {
	known := knownFigures(sources)
	var out []Figure
	seen := map[string]bool{}
	for _, m := range []struct{ name, text string }{
		{"summary", v.Summary}, {"mechanism", v.Mechanism}, {"started_at", v.StartedAt}, {"recommendation", v.Recommendation},
	} {
		for _, f := range figures(m.text) {
			if !known.hold(f) && !seen[f] {
				seen[f] = true
				out = append(out, Figure{Text: f, Member: m.name})
			}
		}
	}
	return out
}

type known struct {
	text    string
	numbers []float64
}

func knownFigures(sources []string) known {
	k := known{text: strings.Join(sources, "\n")}
	for _, f := range figures(k.text) {
		if n, err := strconv.ParseFloat(f, 64); err == nil {
			k.numbers = append(k.numbers, n)
		}
	}
	return k
}

func (k known) hold(figure string) bool {
	n, err := strconv.ParseFloat(figure, 64)
	if err != nil { // a time or a date
		return strings.Contains(k.text, figure) || strings.Contains(k.text, strings.TrimSuffix(figure, "Z"))
	}
	scale := math.Pow(10, float64(decimals(figure)))
	for _, have := range k.numbers {
		if have == n || math.Round(have*scale)/scale == n {
			return true
		}
	}
	return false
}

func decimals(number string) int {
	if i := strings.IndexByte(number, '.'); i >= 0 {
		return len(number) - i - 1
	}
	return 0
}

// figures finds the numbers, dates and times in a text. Digits that belong to a
// name (v841, p99, E7, dep-0510) are none.
func figures(text string) []string {
	var out []string
	for i := 0; i < len(text); {
		if !digit(text[i]) {
			i++
			continue
		}
		end := i
		for end < len(text) && (digit(text[end]) || strings.IndexByte(".:-TZ+", text[end]) >= 0 && figurePart(text, end)) {
			end++
		}
		if !(i > 0 && nameByte(text[i-1])) && !(end < len(text) && letter(text[end])) {
			out = append(out, text[i:end])
		} else {
			for end < len(text) && (nameByte(text[end]) || digit(text[end])) {
				end++
			}
		}
		i = end
	}
	return out
}

// figurePart reports whether the byte at i joins digits into one figure: a
// decimal point, the signs of a date and time, or a final Z.
func figurePart(text string, i int) bool {
	followed := i+1 < len(text) && digit(text[i+1])
	if text[i] == 'Z' {
		return !(i+1 < len(text) && (letter(text[i+1]) || digit(text[i+1])))
	}
	return followed
}

func digit(b byte) bool  { return '0' <= b && b <= '9' }
func letter(b byte) bool { return 'a' <= b|0x20 && b|0x20 <= 'z' }

func nameByte(b byte) bool { return letter(b) || b == '_' || b == '-' || b == '/' || b == '#' }
