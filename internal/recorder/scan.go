package recorder

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
)

// layout is where the parts of a cassette stand in its bytes.
type layout struct {
	header []byte   // its JSON
	lines  [][]byte // interactions, from "- " to before the newline
	seal   []byte   // its JSON, nil without one
	torn   *Torn
	chain  [sha256.Size]byte // after the last interaction
}

// cut splits off the next line. whole is false for a last line without its
// newline.
func cut(b []byte) (text, rest []byte, whole bool) {
	i := bytes.IndexByte(b, '\n')
	if i < 0 {
		return b, nil, false
	}
	return b[:i], b[i+1:], true
}

// scan checks every byte of a cassette and finds its parts.
func scan(b []byte) (layout, error) {
	var out layout
	pos, err := out.head(b)
	if err != nil || out.torn != nil {
		return out, err
	}
	out.chain = sha256.Sum256(b[:pos])
	number := firstLineNo
	for rest := b[pos:]; len(rest) > 0; number++ {
		text, after, whole := cut(rest)
		if !whole && !bytes.HasSuffix(text, []byte(`"}`)) {
			out.torn = &Torn{Line: number, Offset: int64(len(b) - len(rest)), Dropped: len(text)}
			return out, nil
		}
		if out.seal != nil {
			return out, &Damage{Line: number, Interaction: -1, Reason: "text after the seal"}
		}
		if damage := out.take(text, number); damage != nil {
			if !whole { // cut at a place that looks like an end
				out.torn = &Torn{Line: number, Offset: int64(len(b) - len(rest)), Dropped: len(text)}
				return out, nil
			}
			return out, damage
		}
		rest = after
	}
	return out, nil
}

// take verifies one line and keeps it.
func (l *layout) take(text []byte, number int) *Damage {
	if bytes.HasPrefix(text, []byte(sealKey)) {
		body, _, reason := l.sumOf(text)
		if reason != "" {
			return &Damage{Line: number, Interaction: -1, Reason: "the seal: " + reason}
		}
		l.seal = append(bytes.Clone(body[len(sealKey):]), '}')
		return nil
	}
	id := idOf(text)
	if id < 0 {
		return &Damage{Line: number, Interaction: -1, Reason: "expected an interaction or the seal, found " + excerpt(text)}
	}
	_, sum, reason := l.sumOf(text)
	if reason != "" || id != len(l.lines) {
		if id != len(l.lines) {
			reason = fmt.Sprintf("expected interaction %d, found %d; a line was removed, repeated or moved", len(l.lines), id)
		}
		return &Damage{Line: number, Interaction: id, Reason: reason}
	}
	l.chain = sum
	l.lines = append(l.lines, text)
	return nil
}

func excerpt(text []byte) string { return strconv.Quote(string(text[:min(len(text), 40)])) }

// idOf reads the id at the beginning of an interaction, -1 if there is none.
func idOf(text []byte) int {
	const prefix = `- {"id":`
	if !bytes.HasPrefix(text, []byte(prefix)) {
		return -1
	}
	id, digits := 0, 0
	for _, d := range text[len(prefix):] {
		if d < '0' || d > '9' || digits == 9 {
			break
		}
		id, digits = id*10+int(d-'0'), digits+1
	}
	if digits == 0 {
		return -1
	}
	return id
}

// sumOf splits a line from its sum and compares that with the chain.
func (l *layout) sumOf(text []byte) (body []byte, sum [sha256.Size]byte, reason string) {
	at := len(text) - sumTail
	if at < 0 || !bytes.HasPrefix(text[at:], []byte(sumMember)) || !bytes.HasSuffix(text, []byte(`"}`)) {
		return nil, sum, `expected the line to end in "sum" and 64 hex digits`
	}
	h := sha256.New()
	h.Write(l.chain[:])
	h.Write(text[:at])
	h.Sum(sum[:0])
	recorded := text[at+len(sumMember) : len(text)-len(`"}`)]
	if now := hex.EncodeToString(sum[:]); string(recorded) != now {
		return nil, sum, fmt.Sprintf("its bytes were changed, or a line before it was removed: sum recorded %.16q… / now %.16q…", recorded, now)
	}
	return text[:at], sum, ""
}

// head checks the lines before the first interaction and returns where they
// end. A file that was cut after its header line is torn, not damaged: its
// run.started is whole.
func (l *layout) head(b []byte) (int, error) {
	if len(b) == 0 {
		return 0, &FileError{Err: ErrEmpty, Hint: "nothing was recorded; record again"}
	}
	if !bytes.HasPrefix(b, []byte(preamble+headerKey)) {
		return 0, stranger(b)
	}
	text, _, whole := cut(b[len(preamble):])
	at := len(text) - sumTail
	if !whole && (at < len(headerKey) || !bytes.HasPrefix(text[at:], []byte(sumMember))) {
		return 0, &FileError{Err: ErrCutHeader, Line: 3, Hint: "the recording ended before its first event; record again"}
	}
	if err := newer(text); err != nil {
		return 0, err
	}
	end := len(preamble) + len(text)
	if at < len(headerKey) || !bytes.HasPrefix(text[at:], []byte(sumMember)) || text[len(text)-2] != '"' || text[len(text)-1] != '}' {
		return 0, &Damage{Line: 3, Interaction: -1, Reason: `the header: expected it to end in "sum" and 64 hex digits`}
	}
	sum := sha256.Sum256(b[:end-sumTail])
	if recorded := text[at+len(sumMember) : len(text)-2]; string(recorded) != hex.EncodeToString(sum[:]) {
		return 0, &Damage{Line: 3, Interaction: -1, Reason: "the header: its bytes were changed"}
	}
	l.header = text[len(headerKey):]
	rest := b[min(end+1, len(b)):]
	if bytes.HasPrefix(rest, []byte(listLine)) {
		return end + 1 + len(listLine), nil
	}
	if bytes.HasPrefix([]byte(listLine), rest) {
		l.torn = &Torn{Line: 4, Offset: int64(min(end+1, len(b))), Dropped: len(rest)}
		return len(b), nil
	}
	found, _, _ := cut(rest)
	return 0, &Damage{Line: 4, Interaction: -1, Reason: "expected " + strconv.Quote("interactions:") + ", found " + excerpt(found)}
}

// newer refuses a higher format before anything else is believed of the file.
func newer(header []byte) error {
	const prefix = headerKey + `{"format":`
	if !bytes.HasPrefix(header, []byte(prefix)) {
		return nil
	}
	digits := header[len(prefix):]
	if i := bytes.IndexAny(digits, ",}"); i >= 0 {
		digits = digits[:i]
	}
	if n, err := strconv.Atoi(string(digits)); err == nil && n > Format {
		return &FileError{Err: ErrNewer, Line: 3, Found: fmt.Sprintf("format %d; this build reads up to %d", n, Format), Hint: "upgrade investigator"}
	}
	return nil
}

// stranger says what a file is that does not begin like a cassette of ours.
func stranger(b []byte) error {
	if bytes.HasPrefix([]byte(preamble+headerKey), b) {
		return &FileError{Err: ErrCutHeader, Hint: "the recording ended before its first event; record again"}
	}
	line := func(start string) bool {
		return bytes.HasPrefix(b, []byte(start)) || bytes.Contains(b, []byte("\n"+start))
	}
	switch {
	case line("investigator:"):
		return &Damage{Line: firstDifference(b), Interaction: -1, Reason: "the file does not begin as a cassette does"}
	case line("interactions:") && line("version:"):
		return &FileError{Err: ErrNotOurs, Hint: "its exchanges can be served to a client, but there is no run in it to replay"}
	case line("---") || bytes.Contains(b, []byte(": ")):
		return &FileError{Err: ErrNotCassette, Found: "it begins with " + excerpt(b), Hint: "give the path of a file made by investigator"}
	}
	return &FileError{Err: ErrNotYAML, Found: "it begins with " + excerpt(b), Hint: "give the path of a file made by investigator"}
}

// firstDifference returns the line at which b stops to begin like a cassette.
func firstDifference(b []byte) int {
	number, want := 1, []byte(preamble+headerKey)
	for i := 0; i < len(b) && i < len(want) && b[i] == want[i]; i++ {
		if b[i] == '\n' {
			number++
		}
	}
	return number
}

// Verify checks that the bytes of a cassette are those that were written. It
// decodes nothing. The error is a *Damage, or a *FileError when it is no
// cassette at all; a last line that was cut off is no damage.
func Verify(b []byte) error {
	_, err := scan(b)
	return err
}

// Seal is the end of a finished run.
type Seal struct {
	Events       int             `json:"events"`
	Interactions int             `json:"interactions"`
	Ledger       string          `json:"ledger"` // the ledger sum, run.finished included
	Origins      map[string]int  `json:"origins"`
	Finished     json.RawMessage `json:"finished"` // the data of run.finished, canonical
}
