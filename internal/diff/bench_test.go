package diff

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/wI2L/jsondiff"
)

// BenchmarkSixEdits measures each way of comparing two results of about 100 KB
// against decoding both with encoding/json in the same loop. "x-decode" is the
// ratio; ours is to stay below 2.5.
func BenchmarkSixEdits(b *testing.B) {
	old, now, _ := sixEdits()
	decode := func() (x, y any) {
		if json.Unmarshal(old, &x) != nil || json.Unmarshal(now, &y) != nil {
			b.Fatal("the documents do not decode")
		}
		return x, y
	}
	ways := map[string]func() bool{
		"values": func() bool { c, err := Values(old, now); return err == nil && len(c) == 6 },
		"go-cmp": func() bool { x, y := decode(); return cmp.Diff(x, y) != "" },
		"jsondiff": func() bool {
			p, err := peer(old, now, jsondiff.LCS(), jsondiff.Factorize())
			return err == nil && len(p) > 0
		},
	}
	for _, name := range []string{"values", "jsondiff", "go-cmp"} {
		b.Run(name, func(b *testing.B) {
			var base, took time.Duration
			for b.Loop() {
				start := time.Now()
				decode()
				middle := time.Now()
				if !ways[name]() {
					b.Fatal("expected six changes")
				}
				base, took = base+middle.Sub(start), took+time.Since(middle)
			}
			b.ReportMetric(float64(took)/float64(base), "x-decode")
			b.ReportMetric(float64(len(old)), "bytes/doc")
		})
	}
}
