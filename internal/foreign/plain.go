package foreign

import (
	"bytes"

	"investigator/internal/ledger"
)

// plain reports whether no change could concern the value.
func plain(v []byte) bool {
	is, _ := survey(v)
	return is
}

// survey reports whether no change could concern the value, which is the common
// case; and if one could, whether an object in it says of itself that it is a tool
// result. It costs one pass that looks at names, numbers and nulls and leaps over
// texts.
func survey(v []byte) (plain, results bool) {
	plain = true
	for i := 0; i < len(v); i++ {
		switch c := v[i]; {
		case c == '"':
			end := ledger.SkipValue(v, i)
			if end < 0 {
				return false, results
			}
			if end < len(v) && v[end] == ':' {
				name, value := v[i+1:end-1], v[end+1:]
				plain = plain && plainMember(name, value)
				results = results || saysResult(name, value)
			}
			i = end - 1
		case c == 'n':
			plain = false
		case plain && (c == '-' || '0' <= c && c <= '9'):
			if end := numberEnd(v, i); end < 0 {
				plain = false
			} else {
				i = end - 1
			}
		}
	}
	return plain, results
}

// saysResult reports whether a member says that its object is a tool result; one of
// Converse is named by the member that holds it.
func saysResult(name, value []byte) bool {
	switch string(name) {
	case "type":
		return bytes.HasPrefix(value, []byte(`"tool_result"`))
	case "role":
		return bytes.HasPrefix(value, []byte(`"tool"`))
	}
	return false
}

// plainMember reports whether a member is none that a change could concern.
func plainMember(name, value []byte) bool {
	switch string(name) {
	case "cachePoint", "cache_control", "toolChoice", "tool_choice", "additionalModelResponseFieldPaths", "requestMetadata":
		return false
	case "status":
		return !bytes.HasPrefix(value, []byte(`"success"`))
	case "inferenceConfig":
		return !bytes.HasPrefix(value, []byte(`{}`))
	case "text":
		return len(value) > 1 && value[0] == '"' && value[1] > ' ' && value[1] != '"' && value[1] != '\\' && value[1] < 0x80
	}
	return true
}

// numberEnd returns the offset behind a number that a reader with doubles alone
// writes as it is: a short integer or a short decimal. It is -1 for others.
func numberEnd(v []byte, start int) int {
	end, point := start, 0
	for end < len(v) && v[end] != ',' && v[end] != ']' && v[end] != '}' {
		switch v[end] {
		case 'e', 'E':
			return -1
		case '.':
			point = end
		}
		end++
	}
	if end-start > 15 || string(v[start:end]) == "-0" || point > 0 && !shortDecimal(v[start:point], v[point+1:end]) {
		return -1
	}
	return end
}

// shortDecimal reports whether a decimal of at most 15 digits is the shortest text
// of its double, which it is without a zero at its end; and whether it is neither
// so large nor so small that the shortest has an exponent.
func shortDecimal(whole, fraction []byte) bool {
	if len(whole) > 0 && whole[0] == '-' {
		whole = whole[1:]
	}
	n := len(fraction)
	return n > 0 && fraction[n-1] != '0' && len(whole) <= 6 && (string(whole) != "0" || !bytes.HasPrefix(fraction, []byte("0000")))
}
