package world

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// defaultWindow is used where a call names none. Every result says which window
// it used.
const defaultWindow = "24h"

// maxBack keeps arithmetic on times within the years that RFC 3339 can say.
const maxBack = 100 * 365 * 24 * time.Hour

// window is a stretch of time, both ends included.
type window struct {
	End   string `json:"end"`
	Start string `json:"start"`

	start, end time.Time
}

func newWindow(start, end time.Time) window {
	return window{End: rfc(end), Start: rfc(start), start: start, end: end}
}

func (w window) has(t time.Time) bool { return !t.Before(w.start) && !t.After(w.end) }

// parseWindow reads "90m" (back from the clock) or "start/end". An end after
// the clock means the clock: nothing in a world is newer.
func parseWindow(text string, clock time.Time) (window, error) {
	if text == "" {
		text = defaultWindow
	}
	from, to, absolute := strings.Cut(text, "/")
	if !absolute {
		back, err := parseBack(text)
		if err != nil {
			return window{}, err
		}
		return newWindow(clock.Add(-back), clock), nil
	}
	start, err := parseMoment(strings.TrimSpace(from))
	if err != nil {
		return window{}, err
	}
	end, err := parseMoment(strings.TrimSpace(to))
	if err != nil {
		return window{}, err
	}
	if end.Before(start) {
		return window{}, fmt.Errorf("window %q: it ends before it starts", clip(text, 80))
	}
	if start.After(clock) {
		return window{}, fmt.Errorf("window %q: it starts after now, which is %s", clip(text, 80), rfc(clock))
	}
	if end.After(clock) {
		end = clock
	}
	return newWindow(start, end), nil
}

// parseBack reads a positive duration; "d" is a day of 24 hours.
func parseBack(text string) (time.Duration, error) {
	text = strings.TrimSpace(text)
	back, err := time.ParseDuration(text)
	if days, ok := strings.CutSuffix(text, "d"); ok {
		var n int
		n, err = strconv.Atoi(days)
		back = min(time.Duration(max(min(n, 36500), -1))*24*time.Hour, maxBack)
	}
	if err != nil || back <= 0 || back > maxBack {
		return 0, fmt.Errorf("window %q: expected a time back from now or a start and an end", clip(text, 80))
	}
	return back, nil
}

// parseMoment reads the ways models write a UTC time.
func parseMoment(text string) (time.Time, error) {
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04Z07:00", "2006-01-02T15:04:05", "2006-01-02T15:04"} {
		if t, err := time.Parse(layout, text); err == nil {
			if t = t.UTC(); t.Year() >= 1 && t.Year() <= 9999 {
				return t, nil
			}
		}
	}
	return time.Time{}, fmt.Errorf("window: %q is not a time; expected RFC 3339 in UTC, such as 2026-03-10T02:00:00Z", clip(text, 80))
}

// windowExamples is what a result allows after a window that cannot be read.
func windowExamples(clock time.Time) []string {
	return []string{"24h", "90m", "7d", rfc(clock.Add(-2*time.Hour)) + "/" + rfc(clock)}
}
