package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"
)

// section is a group of rows that are measured together.
type section struct {
	name    string
	measure func(context.Context, *bench) error
}

func sections() []section {
	return []section{
		{"size", size}, {"open", open}, {"verify", verify}, {"replay", replay}, {"fork", fork},
		{"record", record}, {"diff", diffs}, {"process", process}, {"overhead", overhead}, {"proxy", proxies},
	}
}

func names() []string {
	var out []string
	for _, s := range sections() {
		out = append(out, s.name)
	}
	return out
}

// bench is a measurement under way.
type bench struct {
	quick bool
	dir   string // for files; removed afterwards
	mitm  string // the folder of mitmproxy, "" or noMitm
	notes io.Writer
	built *built // the program, nil until it is needed
	at    string // the section at hand
	files int    // written so far
	rows  []row
}

// rounds is how often both sides are measured.
func (b *bench) rounds(full int) int {
	if b.quick {
		return max(3, full/4)
	}
	return full
}

func (b *bench) add(rows ...row) {
	for _, r := range rows {
		r.Section = b.at
		r.Repeat = "go run ./bench --only " + b.at
		if b.quick {
			r.Repeat += " --quick"
		}
		b.rows = append(b.rows, r.judged())
	}
}

func measure(ctx context.Context, o options, notes io.Writer) ([]row, error) {
	dir, err := os.MkdirTemp(o.dir, "investigator-bench-")
	if err != nil {
		return nil, fmt.Errorf("make a folder: %w", err)
	}
	defer os.RemoveAll(dir)
	b := &bench{quick: o.quick, dir: dir, mitm: o.mitm, notes: notes}
	for _, s := range sections() {
		if o.only != "" && o.only != s.name {
			continue
		}
		began := time.Now()
		b.at = s.name
		if err := s.measure(ctx, b); err != nil {
			return nil, fmt.Errorf("measure %s: %w", s.name, err)
		}
		fmt.Fprintf(notes, "measured %s in %s\n", s.name, time.Since(began).Round(100*time.Millisecond))
	}
	return b.rows, nil
}
