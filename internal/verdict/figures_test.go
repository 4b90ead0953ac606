package verdict

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestFigures(t *testing.T) {
	text := "p99 of v841 rose from 182.4 ms to 2410 at 2026-03-10T02:00:00Z (02:00), E7#/deploys/1, dep-0510, 10 of 10, 101.4 %; 5s."
	want := []string{"182.4", "2410", "2026-03-10T02:00:00Z", "02:00", "10", "10", "101.4"}
	if d := cmp.Diff(want, figures(text)); d != "" {
		t.Error(d)
	}
}

func TestUnsupported(t *testing.T) {
	sources := []string{`{"points":[{"t":"2026-03-10T02:00:00Z","v":2410.37}],"lines":["pool exhausted: 10 of 10"]}`}
	for _, tt := range []struct {
		summary string
		want    []string
	}{
		{"2410.37 ms at 2026-03-10T02:00:00Z", nil},
		{"2410 ms at 02:00", nil},
		{"2410.4 ms", nil},
		{"all 10 connections", nil},
		{"2411 ms", []string{"2411"}},
		{"at 02:07", []string{"02:07"}},
		{"2411 and again 2411, at 2026-03-10T03:00:00Z", []string{"2411", "2026-03-10T03:00:00Z"}},
		{"v841 by E7", nil},
	} {
		var got []string
		for _, f := range (Verdict{Summary: tt.summary}).Unsupported(sources) {
			got = append(got, f.Text)
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%q: flagged %q, want %q", tt.summary, got, tt.want)
		}
	}
}

func FuzzFigures(f *testing.F) {
	f.Add("2026-03-10T02:00:00Z 1.5 v8 1-")
	f.Fuzz(func(t *testing.T, text string) {
		for _, fig := range figures(text) {
			if fig == "" || !digit(fig[0]) {
				t.Fatalf("%q gives the figure %q", text, fig)
			}
		}
	})
}
