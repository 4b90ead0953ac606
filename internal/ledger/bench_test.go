package ledger

import (
	"fmt"
	"strings"
	"testing"
)

// documents are the kinds of text that pass through here.
func documents() map[string][]byte {
	prose := strings.Repeat("The quick brown fox jumps over the lazy dog. ", 440)
	rows := strings.Repeat(`{"service":"checkout","time":"2026-03-10T02:00:00Z","unit":"ms","value":183.25},`, 200)
	lines := strings.Repeat(`02:03:14 payments-db pool \"exhausted\": 10/10 in use\n`, 300)
	return map[string][]byte{
		"prose":    fmt.Appendf(nil, `{"messages":[{"content":[{"text":%q}],"role":"user"}]}`, prose),
		"unsorted": fmt.Appendf(nil, `{"messages":[{"role":"user","content":[{"text":%q}]}]}`, prose),
		"rows":     []byte(`[` + rows + `null]`),
		"spaced":   []byte(`[` + strings.NewReplacer(`":`, `": `, `,"`, `, "`).Replace(rows) + `null]`),
		"lines":    []byte(`["` + lines + `"]`),
		"letters":  []byte(`["` + strings.Repeat("La capacité du réservoir était épuisée à l’aube. ", 300) + `"]`),
	}
}

func benchmarkDocuments(b *testing.B, f func([]byte) error) {
	for name, doc := range documents() {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(doc)))
			b.ReportAllocs()
			for b.Loop() {
				if err := f(doc); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkCanon(b *testing.B) {
	benchmarkDocuments(b, func(doc []byte) error {
		_, err := Canon(doc)
		return err
	})
}

func BenchmarkSkipValue(b *testing.B) {
	benchmarkDocuments(b, func(doc []byte) error {
		if SkipValue(doc, 0) != len(doc) {
			return ErrSyntax
		}
		return nil
	})
}
