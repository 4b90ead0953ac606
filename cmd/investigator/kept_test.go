package main

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"investigator/internal/edge"
	"investigator/internal/foreign"
	"investigator/internal/recorder"
)

// TestShowKeptAnswers: the answer of a model that speaks no known dialect, or of
// CountTokens, is kept as it came. show once ended with an error behind such a run,
// and in place of the answer said that it is no turn.
func TestShowKeptAnswers(t *testing.T) {
	route, _ := foreign.ParseRoute("/model/amazon.titan-text-express-v1/invoke")
	asked, err := foreign.ReadRequest(route, []byte(`{"inputText":"hello"}`))
	if err != nil {
		t.Fatal(err)
	}
	start, err := foreign.Start(asked)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "a.yaml")
	w, err := recorder.Create(file, recorder.Header{Run: "r", Start: start, Extra: map[string]json.RawMessage{recorder.ForeignMember: json.RawMessage(`{}`)}})
	if err != nil {
		t.Fatal(err)
	}
	p, taken := foreign.Projector{}.Answer(asked.Request, edge.Return{Body: json.RawMessage(`{"results":[{"outputText":"hi"}]}`), Origin: edge.Live})
	if err := w.TookAll([]recorder.Taken{recorder.Taken(taken)}); err != nil {
		t.Fatal(err)
	}
	finished, _ := p.Finished()
	if err := w.Finish(finished); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		o    showOptions
		want string
	}{
		"run":        {showOptions{}, `{"results":[{"outputText":"hi"}]}  [live]`},
		"its usage":  {showOptions{}, "not counted: the tokens of 1 answer kept as they came"},
		"usage":      {showOptions{usage: true}, "not counted: the tokens of 1 answer kept as they came"},
		"usage JSON": {showOptions{usage: true, json: true}, `"untold": 1`},
		"plain":      {showOptions{plain: true}, "not counted"},
	} {
		sh, out := testShell()
		if err := show(sh, file, tt.o); err != nil || !strings.Contains(out.String(), tt.want) || strings.Contains(out.String(), "rule model") {
			t.Errorf("%s: %v, printed\n%s\nexpected %q", name, err, out, tt.want)
		}
	}
}
