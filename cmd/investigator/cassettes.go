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
		return nil, hint(fmt.Errorf("there is no folder %s here", folder), "record a run first: investigator live --model rule")
	}
	if err != nil {
		return nil, fmt.Errorf("list cassettes: %w", err)
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
	best, when := "", ""
	for _, f := range all {
		if f.err != nil || !f.cassette.Sealed() || f.cassette.Header().Parent != nil {
			continue
		}
		if started := f.cassette.Header().Started; best == "" || started > when {
			best, when = f.path, started
		}
	}
	if best == "" {
		return "", hint(fmt.Errorf("%s holds no finished run that is not a fork", folder), "name a cassette, or record one: investigator live --model rule")
	}
	return best, nil
}
