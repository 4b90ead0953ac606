package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"investigator/internal/recorder"
)

// cassettesIn opens every cassette of a folder, by name. What cannot be opened
// comes back as an error beside its name.
func cassettesIn(folder string) ([]found, error) {
	entries, err := os.ReadDir(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, hint(fmt.Errorf("there is no folder %q here", folder), "record a run first: investigator live --model rule")
	}
	if err != nil {
		return nil, hint(fmt.Errorf("list cassettes: %w", err), "name the folder that holds them; investigator show CASSETTE prints one")
	}
	var out []found
	for _, e := range entries {
		name := e.Name()
		if e.IsDir() || !strings.HasSuffix(name, ".yaml") && !strings.HasSuffix(name, ".yml") {
			continue
		}
		c, err := recorder.Open(filepath.Join(folder, name))
		out = append(out, found{filepath.Join(folder, name), c, err})
	}
	return out, nil
}

// checkSeq refuses a seq that the run does not have.
func checkSeq(c *recorder.Cassette, seq int) error {
	total, err := c.EventCount()
	if err != nil {
		return err
	}
	if seq < 1 || seq > total {
		return usagef("investigator show "+shellQuote(c.Name())+" lists the events", "--at: cassette %q: expected an event from 1 to %d, found %d", c.Name(), total, seq)
	}
	return nil
}

type found struct {
	path     string
	cassette *recorder.Cassette
	err      error
}

// newestOriginal finds the newest finished run that is not a fork.
func newestOriginal(folder string) (string, error) {
	all, err := cassettesIn(folder)
	if err != nil {
		return "", err
	}
	best, when, unread := "", "", 0
	for _, f := range all {
		if f.err != nil {
			unread++
		}
		if f.err != nil || !f.cassette.Sealed() || f.cassette.Header().Parent != nil {
			continue
		}
		if started := f.cassette.Header().Started; best == "" || started > when {
			best, when = f.path, started
		}
	}
	if best == "" {
		if unread > 0 {
			return "", hint(fmt.Errorf("%s holds no finished run that is not a fork, and %d that cannot be read", folder, unread), "investigator ls says what is wrong with them")
		}
		return "", hint(fmt.Errorf("%s holds no finished run that is not a fork", folder), "name a cassette, or record one: investigator live --model rule")
	}
	return best, nil
}
