package faults

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"investigator/internal/converse"
	"investigator/internal/ledger"
)

func dropLast(r *records) *Error {
	r.list = r.list[:len(r.list)-1]
	return nil
}

func firstHalf(r *records) *Error {
	r.list, r.status = r.list[:(len(r.list)+1)/2], "truncated"
	return nil
}

func twice(r *records) *Error {
	r.list = slices.Concat(r.list, r.list)
	return nil
}

func reversed(r *records) *Error {
	r.list = slices.Clone(r.list)
	slices.Reverse(r.list)
	return nil
}

// olderHalf keeps the records whose time is among the older half of the times
// there are, so records of one moment stay or go together.
func olderHalf(r *records) *Error {
	times := make([]string, len(r.list))
	for i, record := range r.list {
		t, found := timeOf(record)
		if !found {
			return fault(NotApplicable, "use truncated, or drop records with --drop", "expected a time in UTC, like 2026-03-10T02:00:00Z, in every record, found none in %q", fmt.Sprintf("%s/%d", r.pointer, i))
		}
		times[i] = t
	}
	distinct := slices.Compact(slices.Sorted(slices.Values(times)))
	if len(distinct) < 2 {
		return fault(NotApplicable, "use missing or truncated", "expected records of several times at %s, found one time", quotePointer(r.pointer))
	}
	newest := distinct[(len(distinct)+1)/2-1]
	var kept [][]byte
	for i, record := range r.list {
		if times[i] <= newest {
			kept = append(kept, record)
		}
	}
	r.list = kept
	return nil
}

// timeOf returns a record's time in a form that sorts by bytes: RFC 3339 in UTC
// without the final Z, so that 02:00:00 comes before 02:00:00.5.
func timeOf(record []byte) (string, bool) {
	for _, name := range []string{"time", "t", "timestamp", "at", "ts"} {
		value, found := child(record, name)
		if !found {
			continue
		}
		text, utc := strings.CutSuffix(strings.Trim(string(value), `"`), "Z")
		return text, utc && isTime(text)
	}
	return "", false
}

func isTime(text string) bool {
	const shape = "0000-00-00T00:00:00"
	if len(text) < len(shape) {
		return false
	}
	for i := 0; i < len(text); i++ {
		digit := '0' <= text[i] && text[i] <= '9'
		switch {
		case i == len(shape):
			if text[i] != '.' {
				return false
			}
		case i > len(shape) || shape[i] == '0':
			if !digit {
				return false
			}
		case text[i] != shape[i]:
			return false
		}
	}
	return true
}

// eachNumber changes the spelling of every number within the records.
func eachNumber(change func(number string) string) func(r *records) *Error {
	return func(r *records) *Error {
		r.list = slices.Clone(r.list)
		for i, record := range r.list {
			r.list[i] = mapNumbers(record, change)
		}
		return nil
	}
}

// mapNumbers rewrites the numbers of a canonical value and nothing else.
func mapNumbers(value []byte, change func(string) string) []byte {
	out := make([]byte, 0, len(value)+16)
	for pos := 0; pos < len(value); {
		b := value[pos]
		end := pos + 1
		switch {
		case b == '"':
			end = ledger.SkipValue(value, pos)
			out = append(out, value[pos:end]...)
		case b == '-' || '0' <= b && b <= '9':
			for end < len(value) && !strings.ContainsRune(",]}", rune(value[end])) {
				end++
			}
			out = append(out, change(string(value[pos:end]))...)
		default:
			out = append(out, b)
		}
		pos = end
	}
	return out
}

// times1000 moves the decimal point three places, which is exact for every
// number that can be written, 1e400 included.
func times1000(number string) string {
	number, negative := strings.CutPrefix(number, "-")
	exponent := ""
	if i := strings.IndexAny(number, "eE"); i >= 0 {
		number, exponent = number[:i], number[i:]
	}
	whole, fraction, _ := strings.Cut(number, ".")
	fraction += "000"
	whole, fraction = strings.TrimLeft(whole+fraction[:3], "0"), strings.TrimRight(fraction[3:], "0")
	if whole == "" {
		whole = "0"
	}
	if fraction != "" {
		fraction = "." + fraction
	}
	sign := ""
	if negative {
		sign = "-"
	}
	return sign + whole + fraction + exponent
}

func toNull(string) string { return "null" }

func emptyResult(s *edit) *Error {
	if s.doc[0] == '"' {
		failed := s.failed
		err := s.replace(json.RawMessage(`""`))
		s.failed = failed // a call that failed without a word
		return err
	}
	return onRecords(0, func(r *records) *Error {
		r.list, r.status = nil, "empty"
		return nil
	})(s)
}

func timeout(s *edit) *Error {
	return s.fail("ModelTimeoutException", "no answer within 30 s", 408)
}

func badTurn(err error) *Error {
	return &Error{Kind: NotPatchable, What: "the recorded turn", Hint: "put a whole turn in its place with --replace", Err: err}
}

// isCall reports whether a block is a call for the caller to run. Those of
// server tools come with their results, so they stay together.
func isCall(block []byte) bool {
	kind, n := walk(block, []string{"toolUse", "type"})
	return n == 2 && string(kind) != `"server_tool_use"` || n == 1
}

func cutTurn(s *edit) *Error {
	turn, err := converse.ParseTurn(s.doc)
	if err != nil {
		return badTurn(err)
	}
	ops := []operation{{Op: "replace", Path: "/stopReason", Value: ledger.AppendString(nil, converse.MaxTokens)}}
	if malformedInputs(s.doc) != nil {
		ops = append(ops, operation{Op: "remove", Path: "/investigator/malformedInputs"})
	}
	for i, block := range slices.Backward(turn.Blocks) {
		if isCall(block) {
			ops = append(ops, operation{Op: "remove", Path: fmt.Sprintf("%s/%d", contentPointer, i)})
		}
	}
	return s.apply(ops)
}
