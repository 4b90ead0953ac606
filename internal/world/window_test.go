package world

import (
	"strings"
	"testing"
	"time"
)

func TestParseWindow(t *testing.T) {
	clock := time.Date(2026, 3, 10, 9, 0, 0, 0, time.UTC)
	for text, want := range map[string]string{
		"":           "2026-03-09T09:00:00Z 2026-03-10T09:00:00Z",
		"24h":        "2026-03-09T09:00:00Z 2026-03-10T09:00:00Z",
		" 90m ":      "2026-03-10T07:30:00Z 2026-03-10T09:00:00Z",
		"1h30m":      "2026-03-10T07:30:00Z 2026-03-10T09:00:00Z",
		"7d":         "2026-03-03T09:00:00Z 2026-03-10T09:00:00Z",
		"999999999d": "1926-04-04T09:00:00Z 2026-03-10T09:00:00Z",
		"2026-03-10T01:00:00Z/2026-03-10T03:00:00Z":          "2026-03-10T01:00:00Z 2026-03-10T03:00:00Z",
		"2026-03-10T01:00:00+01:00 / 2026-03-10T03:00:00.5Z": "2026-03-10T00:00:00Z 2026-03-10T03:00:00.5Z",
		"2026-03-10T01:00/2026-03-10T03:00Z":                 "2026-03-10T01:00:00Z 2026-03-10T03:00:00Z",
		"2026-03-10T02:00:00Z/2026-03-10T02:00:00Z":          "2026-03-10T02:00:00Z 2026-03-10T02:00:00Z",
		"2026-03-10T02:00:00Z/2030-01-01T00:00:00Z":          "2026-03-10T02:00:00Z 2026-03-10T09:00:00Z", // nothing is newer than now
		"0001-01-01T00:00:00Z/2026-03-10T02:00:00Z":          "0001-01-01T00:00:00Z 2026-03-10T02:00:00Z",
		"0": "error", "-1h": "error", "1": "error", "d": "error", "-3d": "error", "24 hours": "error", "/": "error",
		"2026-03-10T02:00:00Z": "error", "2026-03-10T02:00:00Z/": "error",
		"2026-03-10T03:00:00Z/2026-03-10T01:00:00Z":           "error",
		"2027-01-01T00:00:00Z/2027-01-02T00:00:00Z":           "error",
		"9999-12-31T23:59:59-23:00/9999-12-31T23:59:59-23:00": "error",
		"9999999h": "error", strings.Repeat("9", 5000) + "h": "error",
	} {
		w, err := parseWindow(text, clock)
		got := w.Start + " " + w.End
		if err != nil {
			got = "error"
			if len(err.Error()) > 300 {
				t.Errorf("an error of %d bytes", len(err.Error()))
			}
		}
		if got != want {
			t.Errorf("%.60q: %s (%v), want %s", text, got, err, want)
		}
	}
}

func TestWindowHoldsItsEnds(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	w := newWindow(start, start.Add(time.Hour))
	for d, want := range map[time.Duration]bool{-1: false, 0: true, time.Hour: true, time.Hour + 1: false} {
		if got := w.has(start.Add(d)); got != want {
			t.Errorf("start%+v: %v", d, got)
		}
	}
}

func FuzzParseWindow(f *testing.F) {
	for _, s := range []string{"24h", "7d", "1h/2h", "2026-03-10T01:00:00Z/2026-03-10T03:00:00Z", "1e9h", "-", "∞d"} {
		f.Add(s)
	}
	clock := time.Date(2026, 3, 10, 9, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, text string) {
		w, err := parseWindow(text, clock)
		if err == nil && (w.end.Before(w.start) || w.end.After(clock)) {
			t.Errorf("%q: %s to %s", text, w.Start, w.End)
		}
	})
}
