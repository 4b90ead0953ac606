package recorder

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// TestNoNameBeforeTheHeader: a recording that is killed before its header is on
// the disk leaves no file of its name, and a name that is taken is never given.
func TestNoNameBeforeTheHeader(t *testing.T) {
	for name, publish := range map[string]func(*draft, string) error{"link": (*draft).publish, "rename": (*draft).rename} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "run.yaml")
			make := func(text string) *draft {
				t.Helper()
				d, err := newDraft(path)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := d.Write([]byte(text)); err != nil {
					t.Fatal(err)
				}
				return d
			}
			d := make("one")
			if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("there is a file before its header: %v", err)
			}
			if err := publish(d, path); err != nil {
				t.Fatal(err)
			}
			if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("mode %v, %v", info.Mode(), err)
			}
			if _, err := d.Write([]byte(" line")); err != nil {
				t.Fatal(err)
			}
			other := make("two")
			if err := publish(other, path); !errors.Is(err, ErrExists) && !errors.Is(err, os.ErrExist) {
				t.Errorf("the name was given twice: %v", err)
			}
			if err := errors.Join(other.discard(), d.discard()); err != nil {
				t.Error(err)
			}
			if b, err := os.ReadFile(path); err != nil || string(b) != "one line" {
				t.Errorf("the file holds %q, %v", b, err)
			}
			if names, err := os.ReadDir(dir); err != nil || len(names) != 1 {
				t.Errorf("%v is left, %v", names, err)
			}
		})
	}
}

// TestErrorsNameNoDraft: what goes wrong is told under the name that was asked
// for.
func TestErrorsNameNoDraft(t *testing.T) {
	f, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	d := &disk{File: f}
	_, write := d.Write([]byte("x"))
	for _, err := range []error{write, d.Truncate(1)} {
		var named *os.PathError
		if err == nil || errors.As(err, &named) {
			t.Errorf("the error names a file: %v", err)
		}
	}
}
