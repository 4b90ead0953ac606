package recorder_test

import (
	"testing"

	"investigator/internal/edge"
	"investigator/internal/ledger"
	"investigator/internal/loop"
	"investigator/internal/recorder/recordertest"

	"github.com/google/go-cmp/cmp"
)

// TestBytesOfRecordings holds the bytes of cassettes: a build that writes a run
// in other words than the one before it breaks whoever compares files. The
// digests change with a change of the format only, which docs/cassette.md
// describes.
func TestBytesOfRecordings(t *testing.T) {
	got := map[string]string{}
	for name, o := range variants() {
		run := record(t, o)
		got[name] = ledger.Digest(run.bytes)
		var forks []byte
		for seq := 1; seq <= len(run.events)+1; seq++ {
			forks = append(forks, fork(t, parse(t, run.bytes), o, seq)...)
		}
		got[name+", forks"] = ledger.Digest(forks)
	}
	got["long"] = ledger.Digest(record(t, recordertest.Options{Turns: 40, Bytes: 9000}).bytes)
	got["troubled"] = ledger.Digest(recordTroubled(t))
	want := map[string]string{
		"long":            "091727e87e693bf9c4bd04fa212fd8177ba8009f38d2247279d522ae37576f51",
		"odd":             "cf26b8cc3218dbf4637ba50aea68f6a6c8c8e53911a259233abad3ad5978a448",
		"odd wire":        "a8a16a244765e2e82bd50ca0c6deb772ea75c54ff54a9f009ccfd768d9f23579",
		"odd wire, forks": "ea6710865c3b88c87e4c3e13b44ffc6cfe9b64c75bc6557a8b7058fa72f37e3c",
		"odd, forks":      "cab303ae94778ddd154c9cc15a4d35287970928e0ce0c6f88bde76947c5f03e6",
		"plain":           "f37b2160c741bfc9b5680bf243fbcef3944b57d531bbdc9ce3de054f88274c2c",
		"plain, forks":    "eec92935e86bd34dd5da2640b81e9c54b2cbfd3b3a8ab1849094a6d1f8b9432c",
		"troubled":        "1be67f84d85efc51ec9f8b91ce3b94cae0341e0893c56e55d590d1f2d7278460",
		"verdict":         "b339c2e461a64dda1ef82dc067921f20c40c295ca2edc5f52589ef9e3d12b396",
		"verdict, forks":  "8d593234f2aee9e1038153e65b576aa2b814f976d1fd62d6b17b83b1af9ec96e",
		"wire":            "781dc360939c1caef98ca731634af2d4dabec373adc4e34f51d18b57d47214fa",
		"wire, forks":     "449d8d160978e3d8c8c67192f10455e862d26c90c63ac40abef8bbe991470e18",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("digests of cassettes (-before +now):\n%s", d)
	}
}

// recordTroubled records a run of everything rare, with a return that is no
// more what went over the wire, and one of frames.
func recordTroubled(t *testing.T) []byte {
	t.Helper()
	w, s, _ := inMemory(t)
	last := edge.Return{Origin: edge.Patched, Body: []byte(streamed), Wire: wireOf(200, []byte(`{"other":1}`), "text/plain", "it broke off\n")}
	if _, err := loop.Run(t.Context(), s, troubled(last), w); err != nil {
		t.Fatal(err)
	}
	return w.Bytes()
}
