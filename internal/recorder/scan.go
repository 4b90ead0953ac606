package recorder

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"sync"
)

// layout is where the parts of a cassette stand in its bytes.
type layout struct {
	header []byte   // its JSON
	lines  [][]byte // interactions, from "- " to before the newline
	seal   []byte   // its JSON, nil without one
	torn   *Torn
	chain  [sha256.Size]byte // before the first interaction
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

// scan checks every byte of a cassette and finds its parts. A recording that was
// killed may end in padding; then its last line need not have reached the disk
// whole, whatever its end.
func scan(padded []byte) (layout, error) {
	var out layout
	b := bytes.TrimRight(padded, " ")
	pos, err := out.head(b)
	if err != nil || out.torn != nil {
		return out, err
	}
	out.chain = sha256.Sum256(b[:pos])
	texts := split(b[pos:])
	whole := len(b) == len(padded) && len(b) > 0 && b[len(b)-1] == '\n'
	wrong, damage := out.check(texts)
	last := len(texts) - 1
	if wrong == last && !whole { // cut off, at whatever place
		text := texts[last]
		out.torn = &Torn{Line: firstLineNo + last, Offset: int64(len(b) - len(text)), Dropped: len(text)}
		texts, damage = texts[:last], nil
	}
	if damage != nil {
		return out, damage
	}
	out.keep(texts)
	if out.seal != nil && len(b) < len(padded) {
		return out, &Damage{Line: firstLineNo + len(texts), Interaction: -1, Reason: "text after the seal"}
	}
	return out, nil
}

// split cuts b into lines without their newlines. A last line may lack its own.
// Of a large text several parts, which end where a line does, are cut at once.
func split(b []byte) [][]byte {
	workers := min(runtime.GOMAXPROCS(0), 1+len(b)/splitBytes)
	parts := make([][][]byte, workers)
	var group sync.WaitGroup
	for n := range workers {
		end := len(b) / (workers - n)
		if i := bytes.IndexByte(b[end:], '\n'); i >= 0 {
			end += i + 1
		} else {
			end = len(b)
		}
		part := b[:end]
		group.Go(func() { parts[n] = lines(part) })
		b = b[end:]
	}
	group.Wait()
	return slices.Concat(parts...)
}

// splitBytes is how much text keeps a processor busy for longer than it takes
// to ask another for help.
const splitBytes = 1 << 20

// lines is split by one.
func lines(b []byte) [][]byte {
	var texts [][]byte
	for len(b) > 0 {
		var text []byte
		text, b, _ = cut(b)
		texts = append(texts, text)
	}
	return texts
}

// check verifies lines and returns the index of the first wrong one with what
// is wrong, len(texts) if none is. Every line holds the sum that the next one
// begins from, so all lines can be verified at once: if each fits the sum
// recorded before it, the chain holds.
func (l *layout) check(texts [][]byte) (int, *Damage) {
	workers := min(runtime.GOMAXPROCS(0), 1+len(texts)/32)
	wrong := make([]int, workers)
	damage := make([]*Damage, workers)
	var group sync.WaitGroup
	for n := range workers {
		group.Go(func() {
			end := (n + 1) * len(texts) / workers
			for i := n * len(texts) / workers; i < end; i++ {
				if damage[n] = l.checkLine(texts, i); damage[n] != nil {
					wrong[n] = i
					return
				}
			}
		})
	}
	group.Wait()
	for n, d := range damage {
		if d != nil {
			return wrong[n], d
		}
	}
	return len(texts), nil
}

// checkLine verifies one line against the sum recorded in the line before it.
func (l *layout) checkLine(texts [][]byte, i int) *Damage {
	text, number := texts[i], firstLineNo+i
	before := l.chain
	if i > 0 {
		if bytes.HasPrefix(texts[i-1], []byte(sealKey)) {
			return &Damage{Line: number, Interaction: -1, Reason: "text after the seal"}
		}
		before, _ = sumIn(texts[i-1]) // if it holds none, that line is the one to name
	}
	if bytes.HasPrefix(text, []byte(sealKey)) {
		if reason := wrongSum(before, text); reason != "" {
			return &Damage{Line: number, Interaction: -1, Reason: "the seal: " + reason}
		}
		return nil
	}
	id := idOf(text)
	switch {
	case id < 0:
		return &Damage{Line: number, Interaction: -1, Reason: "expected an interaction or the seal, found " + excerpt(text)}
	case id != i:
		return &Damage{Line: number, Interaction: id, Reason: fmt.Sprintf("expected interaction %d, found %d; a line was removed, repeated or moved", i, id)}
	}
	if reason := wrongSum(before, text); reason != "" {
		return &Damage{Line: number, Interaction: id, Reason: reason}
	}
	return nil
}

// keep sorts verified lines into interactions and the seal.
func (l *layout) keep(texts [][]byte) {
	if n := len(texts) - 1; n >= 0 && bytes.HasPrefix(texts[n], []byte(sealKey)) {
		l.seal = append(bytes.Clone(texts[n][len(sealKey):len(texts[n])-sumTail]), '}')
		texts = texts[:n]
	}
	l.lines = texts
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

// sumIn reads the sum at the end of a line.
func sumIn(text []byte) (sum [sha256.Size]byte, found bool) {
	at := len(text) - sumTail
	if at < 0 || !bytes.HasPrefix(text[at:], []byte(sumMember)) || !bytes.HasSuffix(text, []byte(`"}`)) {
		return sum, false
	}
	digits := text[at+len(sumMember) : len(text)-len(`"}`)]
	if bytes.ContainsAny(digits, "ABCDEF") {
		return sum, false
	}
	_, err := hex.Decode(sum[:], digits)
	return sum, err == nil
}

// wrongSum says what is wrong with a line that follows the sum before, "" if
// nothing is.
func wrongSum(before [sha256.Size]byte, text []byte) string {
	recorded, found := sumIn(text)
	if !found {
		return `expected the line to end in "sum" and 64 hex digits`
	}
	h := sha256.New()
	h.Write(before[:])
	h.Write(text[:len(text)-sumTail])
	var now [sha256.Size]byte
	h.Sum(now[:0])
	if now != recorded {
		return fmt.Sprintf("its bytes were changed, or a line before it was removed: sum recorded %x… / now %x…", recorded[:8], now[:8])
	}
	return ""
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
	case bytes.HasPrefix(b, []byte("\ufeff")):
		return &Damage{Line: 1, Interaction: -1, Reason: "a byte order mark stands before it; an editor put it there"}
	case bytes.HasPrefix(b, []byte("---\r\n")):
		return &Damage{Line: 1, Interaction: -1, Reason: "its line ends were changed to CRLF; in git, set -text or eol=lf for cassettes"}
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
	Ledger       string          `json:"ledger"`   // the ledger sum, run.finished included
	Origins      map[string]int  `json:"origins"`  // interactions by origin; see Cassette.Origins
	Finished     json.RawMessage `json:"finished"` // the data of run.finished, canonical
}
