package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	gocmp "github.com/google/go-cmp/cmp"

	"investigator/internal/diff"
)

// diffs measures comparing two results of 100 KB that differ in six places, one
// of them an inserted record.
func diffs(ctx context.Context, b *bench) error {
	old, now := sixEdits()
	decode := func() (x, y any, err error) {
		return x, y, errors.Join(json.Unmarshal(old, &x), json.Unmarshal(now, &y))
	}
	times, err := compare(ctx, b.rounds(20), func() error {
		changes, err := diff.Values(old, now)
		if err == nil && len(changes) != 6 {
			err = fmt.Errorf("expected 6 changes, found %d", len(changes))
		}
		return err
	}, func() error {
		_, _, err := decode()
		return err
	}, func() error {
		x, y, err := decode()
		if err == nil && gocmp.Diff(x, y) == "" {
			err = errors.New("go-cmp finds no difference")
		}
		return err
	})
	if err != nil {
		return err
	}
	decoding := took(times[1].best())
	what := fmt.Sprintf("diff of two results of %s, six edits", weighs(len(old)))
	b.add(versus(what, took(times[0].best()), "decoding both", decoding, 2.5, 0),
		versus("go-cmp on the same, for comparison", took(times[2].best()), "decoding both", decoding, 0, 0))
	return nil
}

// sixEdits returns two documents: a record inserted, two numbers written in
// another way, a member dropped, a text cut and the status changed.
func sixEdits() (old, now []byte) {
	var before, after []string
	for k := range 900 {
		record := fmt.Sprintf(`{"attempt":1,"at":"2026-03-02T02:%dZ","host":"h%d","message":"payments-db pool exhausted, waited %d ms","took":1.0}`, k, k, k)
		before = append(before, record)
		switch k {
		case 10:
			after = append(after, `{"inserted":true}`)
		case 100, 500:
			record = strings.Replace(record, `"took":1.0`, `"took":1`, 1)
		case 300:
			record = strings.Replace(record, `"host":"h300",`, ``, 1)
		case 700:
			record = strings.Replace(record, `, waited 700 ms`, ``, 1)
		}
		after = append(after, record)
	}
	return document(before, "ok"), document(after, "empty")
}

func document(records []string, status string) []byte {
	return fmt.Appendf(nil, `{"records":[%s],"status":%q}`, strings.Join(records, ","), status)
}
