// Package price says what a model's tokens cost, from a dated table.
//
// Builtin is the table that comes with the build; Parse reads another of the
// same form, which is how prices are corrected or a private contract is told.
// Both name their date and their sources, and a run records the table it was
// priced by, because prices change and published tables disagree.
//
// Lookup knows model ids, inference profiles and their ARNs. What it does not
// find is unpriced: it never derives a price from a similar name. An
// application inference profile hides its model and is unpriced too, unless the
// table lists its ARN as a model. Service tiers and provisioned throughput are
// not priced.
//
// Prices in a table are decimal US dollars per million tokens and are held as
// whole micro-dollars, exactly.
//
// The package is pure.
package price

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"investigator/internal/converse"
	"investigator/internal/loop"
)

//go:embed prices.json
var builtin string

// Table is a price table.
type Table struct {
	Name    string   `json:"name"`
	Date    string   `json:"date"` // YYYY-MM-DD
	Unit    string   `json:"unit"`
	Sources []string `json:"sources"`
	Notes   []string `json:"notes"`

	rows map[string]row // by model id with its prefix
}

// unit is the one a table must state, so that nobody enters cents or thousands.
const unit = "USD per 1,000,000 tokens"

// row holds micro-dollars per million tokens.
type row struct{ input, output, cacheRead, cacheWrite, cacheWrite1h int64 }

// Builtin returns the table of this build. The error is a fault of the build.
func Builtin() (Table, error) { return Parse([]byte(builtin)) }

// Parse reads a table. Errors name the model and the member.
func Parse(data []byte) (Table, error) {
	var file struct {
		Table
		Models []entry `json:"models"`
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&file); err != nil {
		return Table{}, fmt.Errorf("read price table: %w", err)
	}
	if _, err := dec.Token(); err != io.EOF {
		return Table{}, errors.New("read price table: expected one JSON object, found more after it")
	}
	t := file.Table
	if err := t.check(); err != nil {
		return Table{}, fmt.Errorf("read price table: %w", err)
	}
	t.rows = map[string]row{}
	for i, e := range file.Models {
		if err := t.add(e); err != nil {
			return Table{}, fmt.Errorf("read price table: /models/%d (%q): %w", i, e.Model, err)
		}
	}
	return t, nil
}

func (t Table) check() error {
	switch {
	case t.Name == "":
		return errors.New("/name: expected a name, found none")
	case !isDate(t.Date):
		return fmt.Errorf("/date: expected a date like 2026-11-29, found %q", t.Date)
	case t.Unit != unit:
		return fmt.Errorf("/unit: expected %q, found %q", unit, t.Unit)
	}
	return nil
}

func isDate(s string) bool {
	if len(s) != 10 || s[4] != '-' || s[7] != '-' {
		return false
	}
	for _, part := range []string{s[:4], s[5:7], s[8:]} {
		if strings.Trim(part, "0123456789") != "" {
			return false
		}
	}
	return s[5:7] >= "01" && s[5:7] <= "12" && s[8:] >= "01" && s[8:] <= "31"
}

// entry is one model of a file: the same price for each of the prefixes.
type entry struct {
	Model        string      `json:"model"`
	Prefixes     []string    `json:"prefixes"` // "" for the bare id; none means ""
	Input        json.Number `json:"input"`
	Output       json.Number `json:"output"`
	CacheRead    json.Number `json:"cache_read"`     // left out: as input
	CacheWrite   json.Number `json:"cache_write"`    // left out: as input
	CacheWrite1h json.Number `json:"cache_write_1h"` // left out: as cache_write
	Note         string      `json:"note"`
}

func (t Table) add(e entry) error {
	if e.Model == "" {
		return errors.New("/model: expected a model id, found none")
	}
	var r row
	for _, p := range []struct {
		name  string
		value json.Number
		to    *int64
		other *int64 // where the value is left out
	}{
		{"input", e.Input, &r.input, nil}, {"output", e.Output, &r.output, nil},
		{"cache_read", e.CacheRead, &r.cacheRead, &r.input}, {"cache_write", e.CacheWrite, &r.cacheWrite, &r.input},
		{"cache_write_1h", e.CacheWrite1h, &r.cacheWrite1h, &r.cacheWrite},
	} {
		if p.value == "" && p.other != nil {
			*p.to = *p.other
			continue
		}
		n, err := micro(string(p.value))
		if err != nil {
			return fmt.Errorf("/%s: %w", p.name, err)
		}
		*p.to = n
	}
	if len(e.Prefixes) == 0 {
		e.Prefixes = []string{""}
	}
	for _, prefix := range e.Prefixes {
		id := prefix + e.Model
		if _, found := t.rows[id]; found {
			return fmt.Errorf("%q has a price already", id)
		}
		t.rows[id] = r
	}
	return nil
}

// maxDollars is where a price is taken for a mistake.
const maxDollars = 1_000_000

// micro reads decimal dollars as whole micro-dollars.
func micro(text string) (int64, error) {
	whole, fraction, dotted := strings.Cut(text, ".")
	if whole == "" || dotted && fraction == "" || strings.Trim(whole+fraction, "0123456789") != "" {
		return 0, fmt.Errorf("expected dollars like 0.25, found %q", text)
	}
	if len(fraction) > 6 {
		return 0, fmt.Errorf("expected at most 6 decimals, found %q", text)
	}
	n, err := strconv.ParseInt(whole+fraction+strings.Repeat("0", 6-len(fraction)), 10, 64)
	if err != nil || n > maxDollars*1_000_000 {
		return 0, fmt.Errorf("expected at most %d dollars, found %q", maxDollars, text)
	}
	return n, nil
}

// Lookup returns what a model's tokens cost when caches are written by the rule
// given, and whether the table knows.
func (t Table) Lookup(model string, cache converse.CacheRule) (loop.Price, bool) {
	r, found := t.rows[model]
	if !found {
		r, found = t.rows[profileOf(model)]
	}
	if !found {
		return loop.Price{}, false
	}
	p := loop.Price{Table: t.Name + ", " + t.Date, Input: r.input, Output: r.output, CacheRead: r.cacheRead, CacheWrite: r.cacheWrite}
	if cache == converse.CacheTail1h {
		p.CacheWrite = r.cacheWrite1h
	}
	return p, true
}

// profileOf returns the id inside the ARN of an inference profile or a
// foundation model, "" for anything else.
func profileOf(model string) string {
	parts := strings.SplitN(model, ":", 6)
	if len(parts) != 6 || parts[0] != "arn" || parts[2] != "bedrock" {
		return ""
	}
	for _, kind := range []string{"inference-profile/", "foundation-model/"} {
		if id, found := strings.CutPrefix(parts[5], kind); found {
			return id
		}
	}
	return ""
}
