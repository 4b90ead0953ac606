package foreign

import "bytes"

// plain reports whether no change could concern the value: it is the common
// case, and costs one pass that looks at names, numbers and nulls and leaps over
// texts.
func plain(v []byte) bool {
	for i := 0; i < len(v); i++ {
		switch c := v[i]; {
		case c == '"':
			end := textEnd(v, i)
			if end < 0 || end < len(v) && v[end] == ':' && !plainMember(v[i+1:end-1], v[end+1:]) {
				return false
			}
			i = end - 1
		case c == 'n':
			return false
		case c == '-' || '0' <= c && c <= '9':
			end := numberEnd(v, i)
			if end < 0 {
				return false
			}
			i = end - 1
		}
	}
	return true
}

// textEnd returns the offset behind the text that begins at start, or -1.
func textEnd(v []byte, start int) int {
	for at := start + 1; ; {
		n := bytes.IndexByte(v[at:], '"')
		if n < 0 {
			return -1
		}
		at += n + 1
		slashes := 0
		for i := at - 2; i > start && v[i] == '\\'; i-- {
			slashes++
		}
		if slashes%2 == 0 {
			return at
		}
	}
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
