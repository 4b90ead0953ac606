package world

import (
	"context"
	"encoding/json"
	"path/filepath"
	"testing"
)

func BenchmarkDemo(b *testing.B) {
	for b.Loop() {
		if _, err := Demo(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkDemoFirstCall is what a process pays: opening, compiling the schema,
// answering once.
func BenchmarkDemoFirstCall(b *testing.B) {
	for b.Loop() {
		w, err := Demo()
		if err != nil {
			b.Fatal(err)
		}
		w.Call(context.Background(), "search_logs", json.RawMessage(`{"query":"exhausted"}`))
	}
}

func BenchmarkOpenDir(b *testing.B) {
	for _, name := range realWorlds() {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, err := OpenDir(filepath.Join("..", "..", "worlds", name)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkOpenAndCheck is what a live run pays, and a replay that searches all
// logs for real.
func BenchmarkOpenAndCheck(b *testing.B) {
	for _, name := range realWorlds() {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if err := mustOpenDir(b, name).Check(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkCall(b *testing.B) {
	demo, boutique := mustDemo(b), mustOpenDir(b, "boutique-cpu")
	for _, c := range []struct {
		name, tool, input string
		w                 *World
	}{
		{"demo/query_metrics", "query_metrics", `{"service":"checkout","metric":"latency_p99","window":"24h"}`, demo},
		{"demo/query_metrics_all", "query_metrics", `{"service":"checkout"}`, demo},
		{"demo/list_deploys", "list_deploys", `{"service":"checkout"}`, demo},
		{"demo/search_logs", "search_logs", `{"query":"exhausted"}`, demo},
		{"demo/search_logs_rule", "search_logs", `{"query":"error | exhausted | timeout | timed out | refused | unavailable | throttl | failed","window":"2026-03-10T00:00:00Z/2026-03-10T09:00:00Z"}`, demo},
		{"demo/list_services", "list_services", `{}`, demo},
		{"demo/error", "query_metrics", `{"service":"zz"}`, demo},
		{"boutique/search_logs", "search_logs", `{"query":"error | failed"}`, boutique},
		{"boutique/query_metrics_all", "query_metrics", `{"service":"frontend"}`, boutique},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				c.w.Call(context.Background(), c.tool, json.RawMessage(c.input))
			}
		})
	}
}
