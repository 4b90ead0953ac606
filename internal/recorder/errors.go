package recorder

import (
	"errors"
	"fmt"
	"strings"
)

// What is wrong with a file, wrapped by FileError. A missing file wraps
// fs.ErrNotExist.
var (
	ErrExists      = errors.New("the file exists already")
	ErrEmpty       = errors.New("the file is empty")
	ErrNotFile     = errors.New("not a plain file")
	ErrNotCassette = errors.New("not a cassette")
	ErrNotYAML     = errors.New("not YAML")
	ErrNotOurs     = errors.New("a go-vcr cassette without an investigator header")
	ErrNewer       = errors.New("written by a newer investigator")
	ErrCutHeader   = errors.New("cut off inside its header")
)

// FileError says why a cassette could not be created or opened.
type FileError struct {
	Verb  string // what was tried: "open", "create"
	File  string
	Line  int    // from 1, 0 if it is about the whole file
	Err   error  // one of the sentinels, or the system's error
	Found string // what was found, "" if that says nothing more
	Hint  string // what to do
}

func (e *FileError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s cassette %q: ", e.Verb, e.File)
	if e.Line > 0 {
		fmt.Fprintf(&b, "line %d: ", e.Line)
	}
	b.WriteString(e.Err.Error())
	if e.Found != "" {
		b.WriteString(": " + e.Found)
	}
	return b.String()
}

// Unwrap returns the sentinel or the system's error.
func (e *FileError) Unwrap() error { return e.Err }

// Damage says that the bytes of a cassette are not those that were written.
type Damage struct {
	File        string
	Line        int // from 1
	Interaction int // id, -1 when the line is not an interaction
	Reason      string
}

func (d *Damage) Error() string {
	what := ""
	if d.Interaction >= 0 {
		what = fmt.Sprintf(" (interaction %d)", d.Interaction)
	}
	name := "cassette"
	if d.File != "" {
		name = fmt.Sprintf("cassette %q", d.File)
	}
	return fmt.Sprintf("%s is damaged: line %d%s: %s; restore the file from where it was committed, or record again", name, d.Line, what, d.Reason)
}

// Torn says what was cut off the end of an unfinished cassette. Everything
// before it is intact.
type Torn struct {
	Line    int   // of the unfinished line, from 1
	Offset  int64 // where that line begins, bytes
	Dropped int   // bytes of it that were there
}

func (t *Torn) Error() string {
	return fmt.Sprintf("line %d was cut off after %d bytes (at byte %d); everything before it is intact", t.Line, t.Dropped, t.Offset)
}

// WriteError says that a recording could not go on. The file holds events
// 1..Kept, and no part of a line after them unless Ragged.
type WriteError struct {
	File   string
	Event  int // that could not be kept
	Kept   int
	Ragged bool // the rest of the unfinished line could not be removed
	Err    error
}

func (e *WriteError) Error() string {
	text := fmt.Sprintf("record event %d in %q: %v; events 1 to %d are kept", e.Event, e.File, e.Err, e.Kept)
	if e.Ragged {
		text += ", with the beginning of an unfinished line after them, which readers drop"
	}
	return text
}

// Unwrap returns the system's error.
func (e *WriteError) Unwrap() error { return e.Err }

// changedError says that somebody else changed a file that is being recorded.
type changedError struct{ want, found int64 }

func (e *changedError) Error() string {
	return fmt.Sprintf("somebody else changed the file: expected %d bytes, found %d", e.want, e.found)
}

// Unusable reports whether an error says that a cassette cannot be replayed:
// it is damaged, cut before its first event, from a newer build, or none of
// ours. A file that is missing or may not be read is another matter.
func Unusable(err error) bool {
	var damage *Damage
	if errors.As(err, &damage) {
		return true
	}
	for _, kind := range []error{ErrEmpty, ErrNotCassette, ErrNotYAML, ErrNotOurs, ErrNewer, ErrCutHeader} {
		if errors.Is(err, kind) {
			return true
		}
	}
	return false
}
