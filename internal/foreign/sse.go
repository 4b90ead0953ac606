package foreign

import "bytes"

// byteOrderMark may stand at the beginning of an event stream.
const byteOrderMark = "\ufeff"

// sseData lists the data of the events in a text/event-stream, in order. A line
// ends with CR, LF or both; data lines of one event are joined by LF; comments
// and other fields are left out (WHATWG HTML, 9.2.6). An event at the end needs
// no blank line after it: what the client made of it is not ours to judge.
func sseData(stream []byte) [][]byte {
	stream = bytes.TrimPrefix(stream, []byte(byteOrderMark))
	var out, lines [][]byte
	for len(stream) > 0 {
		var line []byte
		line, stream = sseLine(stream)
		if data, isData := bytes.CutPrefix(line, []byte("data:")); isData {
			lines = append(lines, bytes.TrimPrefix(data, []byte(" ")))
		}
		if ends := len(line) == 0 || len(stream) == 0; ends && len(lines) > 0 {
			out, lines = append(out, joinLines(lines)), nil
		}
	}
	return out
}

// joinLines copies only what has to be joined.
func joinLines(lines [][]byte) []byte {
	if len(lines) == 1 {
		return lines[0]
	}
	return bytes.Join(lines, []byte("\n"))
}

// sseLine splits off a line.
func sseLine(b []byte) (line, rest []byte) {
	i := bytes.IndexAny(b, "\r\n")
	if i < 0 {
		return b, nil
	}
	line, rest = b[:i], b[i+1:]
	if b[i] == '\r' {
		rest = bytes.TrimPrefix(rest, []byte("\n"))
	}
	return line, rest
}
