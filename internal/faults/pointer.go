package faults

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/go-openapi/jsonpointer"

	"investigator/internal/ledger"
)

// tokens splits an RFC 6901 pointer. The library takes a lone "~" as it is;
// the RFC does not, and neither do we, since it is most likely a typing error.
func tokens(pointer string) ([]string, *Error) {
	p, err := jsonpointer.New(pointer)
	if err != nil {
		return nil, fault(BadPatch, `a pointer is "" or starts with "/", like /deploys/1`, "expected a JSON pointer, found %q", pointer)
	}
	if strings.Count(pointer, "~") != strings.Count(pointer, "~0")+strings.Count(pointer, "~1") {
		return nil, fault(BadPatch, `write "~0" for "~" and "~1" for "/" within a name`, "expected a JSON pointer, found %q", pointer)
	}
	return p.DecodedTokens(), nil
}

func join(path []string) string {
	var b strings.Builder
	for _, t := range path {
		b.WriteString("/" + jsonpointer.Escape(t))
	}
	return b.String()
}

// walk follows path into a canonical value as far as it goes. It returns the
// last value reached and how many tokens led there.
func walk(value []byte, path []string) ([]byte, int) {
	at, n := locate(value, path)
	return value[at.start:at.end], n
}

// place is where a value stands in a document.
type place struct{ start, end int }

// locate is walk for those who have to know where the value stands.
func locate(doc []byte, path []string) (place, int) {
	at := place{0, len(doc)}
	for i, token := range path {
		inside, found := locateChild(doc[at.start:at.end], token)
		if !found {
			return at, i
		}
		at = place{at.start + inside.start, at.start + inside.end}
	}
	return at, len(path)
}

// child returns a member or an element. There is none in no value at all.
func child(value []byte, token string) ([]byte, bool) {
	at, found := locateChild(value, token)
	if !found {
		return nil, false
	}
	return value[at.start:at.end], true
}

func locateChild(value []byte, token string) (place, bool) {
	switch {
	case len(value) < len(`{}`):
	case value[0] == '{':
		return locateMember(value, token)
	case value[0] == '[':
		if i, err := strconv.Atoi(token); err == nil && strconv.Itoa(i) == token {
			return locateElement(value, i)
		}
	}
	return place{}, false
}

func locateMember(object []byte, name string) (at place, found bool) {
	visit(object, 0, func(inside []byte, value place) bool {
		found = isSpelled(inside, name)
		at = value
		return !found
	})
	return at, found
}

// visit calls each for the members of the canonical object that begins at pos,
// with the inside of the name and the place of the value, until it returns
// false. It returns the offset behind the object, -1 if it was left before or is
// none.
func visit(text []byte, pos int, each func(name []byte, value place) bool) int {
	if pos+1 >= len(text) || text[pos] != '{' {
		return -1
	}
	if pos++; text[pos] == '}' {
		return pos + 1
	}
	for pos < len(text) && text[pos] == '"' {
		colon := ledger.SkipValue(text, pos)
		if colon < 0 || colon >= len(text) || text[colon] != ':' {
			return -1
		}
		end := ledger.SkipValue(text, colon+1)
		switch {
		case end < 0 || end >= len(text) || !each(text[pos+1:colon-1], place{colon + 1, end}):
			return -1
		case text[end] == '}':
			return end + 1
		}
		pos = end + 1
	}
	return -1
}

// isSpelled reports whether the inside of a canonical string is a text's.
func isSpelled(inside []byte, text string) bool {
	if bytes.IndexByte(inside, '\\') < 0 {
		return string(inside) == text
	}
	return string(ledger.AppendString(nil, text)) == `"`+string(inside)+`"`
}

func locateElement(array []byte, index int) (place, bool) {
	for pos := 1; index >= 0 && pos < len(array)-1; index-- {
		end := ledger.SkipValue(array, pos)
		if end < 0 {
			break
		}
		if index == 0 {
			return place{pos, end}, true
		}
		pos = end + 1
	}
	return place{}, false
}

// isIndex reports whether token is an RFC 6901 array index below n.
func isIndex(token string, n int) bool {
	i, err := strconv.Atoi(token)
	return err == nil && 0 <= i && i < n && strconv.Itoa(i) == token
}

// members returns the members of a canonical object with decoded names.
func members(object []byte) []ledger.Span {
	spans, err := ledger.MemberSpans(object)
	if err != nil {
		return nil
	}
	for i, m := range spans {
		if strings.Contains(m.Name, `\`) {
			_ = json.Unmarshal([]byte(`"`+m.Name+`"`), &spans[i].Name) // canonical text decodes
		}
	}
	return spans
}

// elements returns the elements of a canonical array.
func elements(array []byte) [][]byte {
	var list [][]byte
	for pos := 1; pos < len(array)-1; {
		end := ledger.SkipValue(array, pos)
		if end < 0 {
			return list
		}
		list = append(list, array[pos:end])
		pos = end + 1
	}
	return list
}

// missing explains that a pointer names nothing, by what there is at its
// nearest existing ancestor.
func missing(doc []byte, path []string) *Error {
	value, n := walk(doc, path)
	return fault(NotApplicable, advice(value, path, n), "%s names nothing: %s", quotePointer(join(path)), contents(value, join(path[:n])))
}

// advice gives a pointer that names something where path, of which n tokens
// lead to value, does not.
func advice(value []byte, path []string, n int) string {
	here := join(path[:n])
	switch value[0] {
	case '[':
		if count := len(elements(value)); count > 0 {
			return "the last element is " + strconv.Quote(fmt.Sprintf("%s/%d", here, count-1))
		}
	case '{':
		if _, inside := walk(value, path[n+1:]); inside > 0 && inside == len(path)-n-1 {
			return fmt.Sprintf("leave %q out: %s", path[n], quotePointer(here+join(path[n+1:])))
		}
		for _, m := range members(value) {
			if resembles(m.Name, path[n]) {
				return "there is " + strconv.Quote(here+join([]string{m.Name}))
			}
		}
	}
	return "point at something that is there, or add it with --set"
}

func resembles(a, b string) bool {
	if strings.EqualFold(a, b) {
		return true
	}
	return min(len(a), len(b)) >= 3 && (strings.Contains(a, b) || strings.Contains(b, a))
}

func quotePointer(pointer string) string {
	if pointer == "" {
		return "the whole document"
	}
	return strconv.Quote(pointer)
}

// contents says what there is at a pointer, in a line.
func contents(value []byte, pointer string) string {
	where := pointer
	if where == "" {
		where = "the top"
	}
	switch value[0] {
	case '{':
		names := memberNames(value)
		if len(names) == 0 {
			return where + " has no members"
		}
		return where + " has " + strings.Join(names, ", ")
	case '[':
		switch n := len(elements(value)); n {
		case 0:
			return where + " is an empty array"
		case 1:
			return where + " has one element, 0"
		default:
			return fmt.Sprintf("%s has %d elements, 0 to %d", where, n, n-1)
		}
	}
	return fmt.Sprintf("%s is %s", where, abbreviate(value))
}

const shownNames = 12

// depthOf returns how deep a canonical value nests.
func depthOf(value []byte) int {
	depth, deepest := 0, 0
	for pos := 0; pos < len(value); pos++ {
		switch value[pos] {
		case '"':
			pos = ledger.SkipValue(value, pos) - 1
		case '{', '[':
			depth++
			deepest = max(deepest, depth)
		case '}', ']':
			depth--
		}
	}
	return deepest
}

func memberNames(object []byte) []string {
	var names []string
	for _, m := range members(object) {
		names = append(names, m.Name)
	}
	if n := len(names); n > shownNames {
		names = append(slices.Clip(names[:shownNames]), fmt.Sprintf("and %d more", n-shownNames))
	}
	return names
}

func abbreviate(value []byte) string {
	const limit = 40
	if len(value) <= limit {
		return string(value)
	}
	return strings.ToValidUTF8(string(value[:limit]), "") + "…"
}
